package fleet

import (
	"net/http"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/fleet/lake"
	"github.com/memgauge/memgauge/internal/fleet/node"
)

// lakeSlots bounds how many questions a hub's lake answers at a time: each is a process that may take 1.25 GiB.
const lakeSlots = 2

// lakeRows answers for the lake of a hub.
func lakeRows(location string) node.Rows {
	room := lake.NewRoom(lakeSlots)
	return func(of fanout.Select, rights api.Rights) http.Handler {
		return lake.Handler(lake.Choice{Location: location, Job: of.Job, Node: of.Node, Rank: of.Rank, Since: of.Since},
			room, rights)
	}
}
