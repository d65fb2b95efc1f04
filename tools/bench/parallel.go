package main

import (
	"errors"
	"sync"
	"sync/atomic"
)

// parallel calls do for 0..n-1 from at most so many goroutines and returns the
// errors of all.
func parallel(goroutines, n int, do func(i int) error) error {
	var next atomic.Int64
	var group sync.WaitGroup
	errs := make([]error, min(goroutines, n))
	for w := range errs {
		group.Go(func() {
			for errs[w] == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				errs[w] = do(i)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}
