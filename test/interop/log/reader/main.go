// The parts of other projects that judge Rampart's logs: golang.org/x/mod/sumdb, transparency-dev's merkle
// and formats. Each command prints what it finds, or ends with 1.
package main

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/transparency-dev/formats/log"
	"github.com/transparency-dev/formats/proof"
	merkle "github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
)

func main() {
	commands := map[string]func([]string) error{
		"roots":   roots,
		"proof":   verifyProof,
		"witness": witness,
		"audit":   audit,
	}
	if err := commands[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// tree is x/mod's storage of a tree of the entries `entry 0`, `entry 1`, …
type tree struct {
	hashes []tlog.Hash
	size   int64
}

func (t *tree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	found := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		found[i] = t.hashes[index]
	}
	return found, nil
}

func (t *tree) grow(size int64) error {
	for ; t.size < size; t.size++ {
		stored, err := tlog.StoredHashes(t.size, []byte(fmt.Sprintf("entry %d", t.size)), t)
		if err != nil {
			return err
		}
		t.hashes = append(t.hashes, stored...)
	}
	return nil
}

// roots prints the root of each size, and of every older size the consistency proof to it.
func roots(sizes []string) error {
	t := &tree{}
	older := int64(0)
	for _, text := range sizes {
		size, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return err
		}
		if err := t.grow(size); err != nil {
			return err
		}
		root, err := tlog.TreeHash(size, t)
		if err != nil {
			return err
		}
		fmt.Printf("%d %x", size, root[:])
		if older > 0 {
			steps, err := tlog.ProveTree(size, older, t)
			if err != nil {
				return err
			}
			for _, step := range steps {
				fmt.Printf(" %x", step[:])
			}
		}
		fmt.Println()
		older = size
	}
	return nil
}

// verifyProof opens a .tlog-proof, its checkpoint and its proof: <vkey> <file>.
func verifyProof(args []string) error {
	octets, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	var read proof.TLogProof
	if err := read.Unmarshal(octets); err != nil {
		return err
	}
	verifier, err := note.NewVerifier(args[0])
	if err != nil {
		return err
	}
	checkpoint, _, _, err := log.ParseCheckpoint(read.Checkpoint, verifier.Name(), verifier)
	if err != nil {
		return err
	}
	hashes := make([][]byte, len(read.Hashes))
	for i := range read.Hashes {
		hashes[i] = read.Hashes[i][:]
	}
	leaf := rfc6962.DefaultHasher.HashLeaf(read.ExtraData)
	if err := merkle.VerifyInclusion(rfc6962.DefaultHasher, read.Index, checkpoint.Size, leaf, hashes, checkpoint.Hash); err != nil {
		return err
	}
	fmt.Printf("index %d of %d\n", read.Index, checkpoint.Size)
	return nil
}
