package engine

// mediaOutcomes says for each artifact what each kind of fault may come to.
// Where there are several it depends on the place: a bit of the log is rot
// below its last commit frame and nothing behind it.
var mediaOutcomes = [artifacts]map[faultKind]outcome{
	artifactStore:      metadataOutcomes,
	artifactNamespaces: metadataOutcomes,
	artifactLock:       neverMatters,
	artifactProbe:      neverMatters,
	artifactEvidence:   neverMatters,
	artifactLog: {
		otherBytes: unharmed | rebuilt, fileCut: unharmed | rebuilt, fileLonger: unharmed, fileGone: rebuilt,
		unreadable: refused, wrongAnswer: unharmed | rebuilt,
	},
	artifactSegment: {
		otherBytes: unharmed | missed, fileCut: unharmed | missed, fileLonger: unharmed, fileGone: unharmed | missed,
		// Refused where Open has to decide on it: is it sealed, where does it end.
		unreadable: unharmed | missed | refused, wrongAnswer: unharmed | missed,
	},
	// What they name is gone from the index too: only a rebuild needs them.
	artifactTombstones: {
		otherBytes: unharmed, fileCut: unharmed, fileLonger: unharmed, fileGone: unharmed,
		unreadable: unharmed | refused, wrongAnswer: unharmed,
	},
	artifactManifest:   indexOutcomes,
	artifactTable:      indexOutcomes,
	artifactIndexOther: indexOutcomes,
}

// metadataOutcomes are those of one copy of two.
var metadataOutcomes = map[faultKind]outcome{
	otherBytes: healed, fileCut: healed, fileLonger: healed, fileGone: healed, unreadable: healed, wrongAnswer: healed,
}

var neverMatters = map[faultKind]outcome{
	otherBytes: unharmed, fileCut: unharmed, fileLonger: unharmed, fileGone: unharmed, unreadable: unharmed, wrongAnswer: unharmed,
}

var indexOutcomes = map[faultKind]outcome{
	otherBytes: unharmed | rebuilt | lostIndex, fileCut: unharmed | rebuilt | lostIndex, fileLonger: unharmed | rebuilt | lostIndex,
	fileGone: unharmed | rebuilt | lostIndex, unreadable: unharmed | refused, wrongAnswer: unharmed | rebuilt | lostIndex,
}
