package canary

import (
	"os"
	"os/exec"
	"path/filepath"
)

// ChildCommand is the command of the program sealstone that becomes the child.
const ChildCommand = "gpu-canary"

// programName is the executable that knows that command.
const programName = "sealstone"

// program is the command line of the child. The running executable is taken
// only if it is sealstone itself: another one, an inference engine with this
// library in it, would start a second engine.
func (o Options) program() ([]string, *finding) {
	if len(o.Program) > 0 {
		return o.Program, nil
	}
	if exe, err := os.Executable(); err == nil && filepath.Base(exe) == programName {
		return []string{exe, ChildCommand}, nil
	}
	exe, err := exec.LookPath(programName)
	if err != nil {
		return nil, found(nameNoProgram, "no probe program: a trial runs in a process of its own, and there is no %s in PATH (%v); install it, or name a program in Options.Program", programName, err)
	}
	return []string{exe, ChildCommand}, nil
}
