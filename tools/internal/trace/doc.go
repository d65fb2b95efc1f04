// Package trace reads recorded workloads: which blocks each request of an
// inference service referred to, in the order of arrival.
//
// Two formats are known. A Mooncake trace is a file of JSON lines, one request
// each, with block ids that are global to the file. An agentic trace is a
// directory of JSON files, one session each, with block ids that are local to
// the session; sessions are merged by time and their ids are told apart by
// [Request.Scope].
package trace
