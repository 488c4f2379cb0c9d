"""The inbox: a web page of plain files, and the routes that serve them."""
