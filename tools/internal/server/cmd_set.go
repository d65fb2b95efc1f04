package server

import (
	"github.com/sealstone/sealstone/tools/internal/server/resp"
)

func init() {
	register(definition{name: "SET", argsMin: 3, rights: mayWrite, takesLost: true, keys: oneKey, do: set})
}

func set(c *conn, cmd *resp.Command) {
	c.out.Simple("OK")
}
