"""Pages that are made from declarations and documents: the reference, the calls, the site."""
