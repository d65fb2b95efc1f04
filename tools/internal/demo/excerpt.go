package demo

import _ "embed"

// excerptLines are 200 requests of the Mooncake conversation trace; where
// they come from and their licence stand in excerpt/NOTICE.
//
//go:embed excerpt/conversation.jsonl
var excerptLines []byte

// ExcerptNotice is the origin and the licence of the bundled trace.
//
//go:embed excerpt/NOTICE
var ExcerptNotice string
