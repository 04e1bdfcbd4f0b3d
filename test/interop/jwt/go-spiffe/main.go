// Answers questions about JWT-SVIDs with go-spiffe, one line of JSON each: by the Workload API of an agent, or by a
// bundle alone.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/jwtbundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/jwtsvid"
	"github.com/spiffe/go-spiffe/v2/workloadapi"
)

type question struct {
	// Op is fetch, validate (by the agent), source (by the bundles that the agent streams) or bundle.
	Op       string
	Audience []string
	Token    string
	Bundle   string
}

type answer struct {
	Token    string `json:"token,omitempty"`
	SpiffeID string `json:"spiffeId,omitempty"`
	Error    string `json:"error,omitempty"`
}

func main() {
	var api *workloadapi.Client
	var source *workloadapi.JWTSource
	background := context.Background()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			panic(err)
		}
		ctx, cancel := context.WithTimeout(background, 20*time.Second)
		var svid *jwtsvid.SVID
		var err error
		if asked.Op != "bundle" && api == nil {
			api, err = workloadapi.New(background)
		}
		if asked.Op == "source" && source == nil && err == nil {
			source, err = workloadapi.NewJWTSource(ctx)
		}
		if err == nil {
			svid, err = judge(ctx, asked, api, source)
		}
		cancel()
		said := answer{}
		if err != nil {
			said.Error = err.Error()
		} else {
			said = answer{Token: svid.Marshal(), SpiffeID: svid.ID.String()}
		}
		line, _ := json.Marshal(said)
		fmt.Println(string(line))
	}
}

func judge(ctx context.Context, asked question, api *workloadapi.Client, source *workloadapi.JWTSource) (*jwtsvid.SVID, error) {
	switch asked.Op {
	case "fetch":
		return api.FetchJWTSVID(ctx, jwtsvid.Params{Audience: asked.Audience[0], ExtraAudiences: asked.Audience[1:]})
	case "validate":
		return api.ValidateJWTSVID(ctx, asked.Token, asked.Audience[0])
	case "source":
		return jwtsvid.ParseAndValidate(asked.Token, source, asked.Audience)
	}
	bundle, err := jwtbundle.Parse(spiffeid.RequireTrustDomainFromString("cluster.local"), []byte(asked.Bundle))
	if err != nil {
		return nil, err
	}
	return jwtsvid.ParseAndValidate(asked.Token, bundle, asked.Audience)
}
