"""`python -m gradcheck_cli`."""

from gradcheck_cli.cli.app import main

if __name__ == "__main__":  # a process that this one starts may import it again
    main()
