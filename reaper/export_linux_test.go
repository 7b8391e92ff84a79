package reaper

// For tests of what the process table tells.
var (
	Process   = process
	ParseStat = parseStat
)
