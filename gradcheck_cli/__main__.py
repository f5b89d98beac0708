"""`python -m gradcheck_cli`."""

from gradcheck_cli.cli.app import main

main()
