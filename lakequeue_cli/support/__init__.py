"""`lakequeue support-dump`: what somebody else needs to find a fault, without what records hold."""
