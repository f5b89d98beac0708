"""One page of HTML that needs no network: what was checked, and what is to be seen of it."""
