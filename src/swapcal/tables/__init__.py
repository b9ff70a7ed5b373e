"""Files and frames in, files out: one reader, one spelling of values, one atomic writer."""
