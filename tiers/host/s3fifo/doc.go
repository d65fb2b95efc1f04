// Package s3fifo decides which items a bounded cache gives up.
//
// It is S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: "FIFO queues are all you need
// for cache eviction", SOSP 2023), by bytes: new items pass through a small
// queue and only those used meanwhile come into the main one, so that a scan
// leaves the main queue as it is. What left the small queue unused is
// remembered by a fingerprint for as long as the main queue lasts; it enters
// the main queue when it comes back.
package s3fifo
