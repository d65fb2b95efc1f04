package check

import (
	"context"
	"io"
	"os"

	"github.com/sealstone/sealstone/gpu/canary"
)

// Child is the process of its own that a step needs, if args are those that
// make the program one. Then it must end with what Child returns.
func Child(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) (isChild bool, err error) {
	if len(args) != 1 {
		return false, nil
	}
	switch args[0] {
	case canary.ChildCommand:
		return true, canary.Child(ctx, stdin, os.NewFile(canary.AnswerFD, "answer"))
	case compatChild:
		return true, answerCompat(stdin, stdout)
	}
	return false, nil
}
