package fanout

import "net/http"

// MachinePath is asked of a node about its machine, not of its sessions.
const MachinePath = "/v1/machine"

// machineID stands where a session's id would: no session has it, so a node that watches nothing has no answer.
const machineID = "machine"

// Machine asks the nodes that watch their machine for what they see.
func Machine() (Select, Request) {
	return Select{Session: machineID}, Request{Method: http.MethodGet, Path: MachinePath}
}

// MachineOf is how a node answers for its machine.
func MachineOf(node string) (s Session) {
	s.Node, s.About.ID = node, machineID
	return s
}
