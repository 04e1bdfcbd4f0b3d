package main

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	"golang.org/x/mod/sumdb/note"

	"github.com/transparency-dev/formats/log"
	cosignature "github.com/transparency-dev/formats/note"
	merkle "github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
)

// witness cosigns the checkpoints of one log until it is killed: <name> <vkey of the log>.
func witness(args []string) error {
	skey, vkey, err := note.GenerateKey(rand.Reader, args[0])
	if err != nil {
		return err
	}
	signer, err := cosignature.NewSignerForCosignatureV1(skey)
	if err != nil {
		return err
	}
	if vkey, err = cosignature.VKeyToCosignatureV1(vkey); err != nil {
		return err
	}
	verifier, err := note.NewVerifier(args[1])
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("%s http://%s\n", vkey, listener.Addr())
	var lock sync.Mutex
	var latest log.Checkpoint
	http.HandleFunc("/add-checkpoint", func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		defer lock.Unlock()
		body, _ := io.ReadAll(r.Body)
		head, rest, _ := bytes.Cut(body, []byte("\n\n"))
		lines := strings.Split(string(head), "\n")
		var older uint64
		fmt.Sscanf(lines[0], "old %d", &older)
		next, _, opened, err := log.ParseCheckpoint(rest, verifier.Name(), verifier)
		if err != nil {
			w.WriteHeader(403)
			return
		}
		if older != latest.Size {
			w.Header().Set("Content-Type", "text/x.tlog.size")
			w.WriteHeader(409)
			fmt.Fprintf(w, "%d\n", latest.Size)
			return
		}
		var hashes [][]byte
		for _, line := range lines[1:] {
			hash, _ := base64.StdEncoding.DecodeString(line)
			hashes = append(hashes, hash)
		}
		if older > 0 {
			if err := merkle.VerifyConsistency(rfc6962.DefaultHasher, older, next.Size, hashes, latest.Hash, next.Hash); err != nil {
				w.WriteHeader(422)
				return
			}
		}
		latest = *next
		signed, err := note.Sign(&note.Note{Text: opened.Text}, signer)
		if err != nil {
			w.WriteHeader(500)
			return
		}
		_, line, _ := bytes.Cut(signed, []byte("\n\n"))
		w.Write(line)
	})
	return http.Serve(listener, nil)
}
