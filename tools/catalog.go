package tools

// catalog makes all tools, in the order in which they are listed.
func catalog() []*Tool {
	return []*Tool{
		readFile(),
		writeFile(),
		editFile(),
		listFiles(),
		globFiles(),
		grepFiles(),
		runCommand(),
		processStart(),
		processOutput(),
		processInput(),
		processSignal(),
		processList(),
		snapshotCheckpoint(),
		snapshotList(),
		snapshotDiff(),
		snapshotRestore(),
	}
}
