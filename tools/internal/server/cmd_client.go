package server

import (
	"fmt"
	"strings"

	"github.com/sealstone/sealstone/tools/internal/server/resp"
)

func init() {
	register(
		definition{name: "CLIENT", argsMin: 2, do: client},
		definition{name: "COMMAND", argsMin: 1, do: command},
		definition{name: "CONFIG", argsMin: 2, do: config},
	)
}

// client does what libraries say when they connect. CLIENT SETINFO and the
// wishes that change nothing here are taken note of by an OK.
func client(c *conn, cmd *resp.Command) {
	args := cmd.Args[2:]
	switch sub := strings.ToUpper(clip(cmd.Args[1])); {
	case sub == "ID" && len(args) == 0:
		c.out.Int(c.id)
	case sub == "GETNAME" && len(args) == 0:
		if c.name == "" {
			c.out.Null()
			return
		}
		c.out.BulkString(c.name)
	case sub == "SETNAME" && len(args) == 1:
		if !goodName(args[0]) {
			c.fail("ERR Client names cannot contain spaces, newlines or special characters, and have at most %d bytes", clientNameMax)
			return
		}
		c.name = string(args[0])
		c.out.Simple("OK")
	case sub == "SETINFO" && len(args) == 2:
		c.out.Simple("OK")
	case (sub == "NO-EVICT" || sub == "NO-TOUCH") && len(args) == 1 && (isWord(args[0], "ON") || isWord(args[0], "OFF")):
		c.out.Simple("OK")
	case (sub == "INFO" || sub == "LIST") && len(args) == 0:
		c.out.Verbatim(c.describe())
	default:
		c.failSub("CLIENT", cmd)
	}
}

// failSub answers a word after a command that is not known, or has the wrong
// number of arguments.
func (c *conn) failSub(name string, cmd *resp.Command) {
	c.fail("ERR unknown subcommand or wrong number of arguments for '%s %s'", name, clip(cmd.Args[1]))
}

// describe is the line of this connection alone: others are not its business.
func (c *conn) describe() string {
	return fmt.Sprintf("id=%d addr=%s laddr=%s name=%s db=0 resp=%d user=%s\n",
		c.id, addressOf(c.net.RemoteAddr()), addressOf(c.net.LocalAddr()), c.name, c.out.Protocol(), orWord(c.who.Name, "default"))
}

func addressOf(a fmt.Stringer) string {
	if a == nil {
		return ""
	}
	return a.String()
}

func orWord(s, word string) string {
	if s == "" {
		return word
	}
	return s
}

// command tells of the table what clients ask for.
func command(c *conn, cmd *resp.Command) {
	all := definitions()[1:]
	if len(cmd.Args) == 1 {
		c.out.Array(len(all))
		for _, d := range all {
			c.commandInfo(d)
		}
		return
	}
	switch sub := strings.ToUpper(clip(cmd.Args[1])); sub {
	case "COUNT":
		c.out.Int(int64(len(all)))
	case "LIST":
		c.out.Array(len(all))
		for _, d := range all {
			c.out.BulkString(strings.ToLower(d.name))
		}
	case "DOCS":
		c.out.Map(0) // redis-cli does without
	case "INFO":
		c.out.Array(len(cmd.Args) - 2)
		for _, name := range cmd.Args[2:] {
			if d := lookUp(name); d != unknown {
				c.commandInfo(d)
			} else {
				c.out.NullArray()
			}
		}
	default:
		c.failSub("COMMAND", cmd)
	}
}

func (c *conn) commandInfo(d *definition) {
	arity := d.argsMin
	if d.argsMax != d.argsMin {
		arity = -arity
	}
	c.out.Array(6)
	c.out.BulkString(strings.ToLower(d.name))
	c.out.Int(int64(arity))
	flags := d.flags()
	c.out.Array(len(flags))
	for _, f := range flags {
		c.out.Simple(f)
	}
	c.out.Int(int64(d.keys.first))
	c.out.Int(int64(d.keys.last))
	c.out.Int(int64(d.keys.step))
}

func (d *definition) flags() []string {
	var out []string
	if d.rights&(mayWrite|mayDrop) != 0 {
		out = append(out, "write")
	}
	if d.rights&mayRead != 0 {
		out = append(out, "readonly")
	}
	if d.rights&noLogin != 0 {
		out = append(out, "no_auth")
	}
	return append(out, "fast")
}
