// Istio's own CA client, and Go's own verifier, as one program for the interop suite: a request as JSON
// on standard input, what came of it as JSON on standard output.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"istio.io/istio/pkg/log"
)

var commands = map[string]func(json.RawMessage) (any, error){
	"bundles": bundles,
	"call":    call,
	"request": request,
	"verify":  verify,
}

func main() {
	// Istio's loggers would write to standard output.
	options := log.DefaultOptions()
	options.OutputPaths = []string{"stderr"}
	if err := log.Configure(options); err != nil {
		fail(err)
	}
	if len(os.Args) != 2 || commands[os.Args[1]] == nil {
		fail(fmt.Errorf("usage: istio-client bundles|call|request|verify"))
	}
	var input json.RawMessage
	if err := json.NewDecoder(os.Stdin).Decode(&input); err != nil {
		fail(err)
	}
	output, err := commands[os.Args[1]](input)
	if err != nil {
		output = map[string]string{"error": err.Error()}
	}
	if err := json.NewEncoder(os.Stdout).Encode(output); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
