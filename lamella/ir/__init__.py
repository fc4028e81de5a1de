"""The intermediate representations: graphs of nodes, and loops over scalar functions."""
