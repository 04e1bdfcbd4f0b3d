import { type CertificateEntry, LogEntry } from "../../src/ca/issuance/log-entry.ts";
import { Bytes } from "../../src/pki/encoding/bytes.ts";
import type { SpiffeId } from "../../src/pki/spiffe-id.ts";
import { Certificate } from "../../src/pki/x509/certificate.ts";
import { Leaf } from "../../src/pki/x509/leaf/certificate-signer.ts";
import { IdentityProof } from "../../src/pki/x509/leaf/identity-proof.ts";
import { SubjectPublicKey } from "../../src/pki/x509/subject-public-key.ts";
import { addSeconds } from "../../src/pki/x509/validity.ts";
import { Frontier } from "../../src/tlog/frontier.ts";
import { Hash } from "../../src/tlog/merkle.ts";
import { Checkpoint } from "../../src/tlog/note/checkpoint.ts";
import { formatNote } from "../../src/tlog/note/note.ts";
import { VerifierKey } from "../../src/tlog/note/verifier-key.ts";
import { Tile } from "../../src/tlog/tile.ts";
import { createBenchIssuer } from "../crl-rows.ts";

/** A published log of a mesh. */
export interface MeshLog {
  readonly verifierKey: string;
  readonly objects: ReadonlyMap<string, Uint8Array>;
}

const begin = Date.parse("2026-11-01T00:00:00Z");
const accounts = 5_000;
const pods = 6 * accounts;
const day = 86_400;

/**
 * The log of three clusters with five thousand accounts, of which each has six pods on its nodes. Every pod renews by
 * its token or its certificate; entries come one a second.
 */
export async function createMeshLog(size: number): Promise<MeshLog> {
  const entryOf = await meshEntries(size);
  const objects = new Map<string, Uint8Array>();
  const frontier = Frontier.empty();
  const keep = (tiles: ReturnType<Frontier["partialTiles"]>): void => {
    for (const tile of tiles) objects.set(Tile.path(tile), tile.octets);
  };
  for (let first = 0; first < size; first += Tile.fullWidth) {
    const width = Math.min(Tile.fullWidth, size - first);
    const entries = Array.from({ length: width }, (_, i) => entryOf(first + i));
    for (const entry of entries) keep(frontier.append(Hash.ofLeaf(entry)));
    const path = Tile.path({ level: "entries", index: first / Tile.fullWidth, width });
    objects.set(path, Tile.formatBundle(entries));
  }
  keep(frontier.partialTiles());
  const origin = "log.example.com/bench";
  const { privateKey, publicKey } = await VerifierKey.generate();
  const { key, sign } = Checkpoint.createSigner(
    origin,
    privateKey,
    await VerifierKey.raw(publicKey),
  );
  const text = Checkpoint.format({ origin, size, root: frontier.root() });
  const note = formatNote({ text, signatures: [await sign(text)] });
  objects.set(Tile.checkpointPath, new TextEncoder().encode(note));
  return { verifierKey: VerifierKey.format(key), objects };
}

async function meshEntries(size: number): Promise<(idx: number) => Bytes> {
  const leaves = await accountLeaves(Math.min(size, accounts));
  return (idx) => {
    const leaf = leaves[idx % leaves.length];
    if (!leaf) throw new Error("no leaf");
    const pod = idx % pods;
    const at = new Date(begin + 1000 * idx).toISOString();
    const isRenewal = Math.floor(idx / pods) % 2 === 1;
    return LogEntry.format({
      kind: "certificate",
      certificate: withSerial(leaf, idx),
      at,
      proof: isRenewal ? "certificate" : "token",
      cluster: `prod-${idx % 3}`,
      issuer: `https://prod-${idx % 3}.example.com`,
      ...(isRenewal && { provedAt: at, callerSerialNumber: "01ab", callerAuthority: "00" }),
      pod: isRenewal ? undefined : { name: `pod-${pod}`, uid: `${pod}` },
      node: isRenewal ? undefined : { name: `node-${pod % 1_000}` },
      tokenId: `${idx}`,
      requestedSeconds: day,
      policy: "0".repeat(64),
      rule: "all",
    } satisfies CertificateEntry);
  };
}

async function accountLeaves(count: number): Promise<readonly Bytes[]> {
  const now = new Date(begin);
  const issuer = await createBenchIssuer(now);
  const p256 = { name: "ECDSA", namedCurve: "P-256" };
  const { publicKey } = await crypto.subtle.generateKey(p256, true, ["sign", "verify"]);
  const spki = new Uint8Array((await crypto.subtle.exportKey("spki", publicKey)) as ArrayBuffer);
  const leaves: Bytes[] = [];
  for (let i = 0; i < count; i++) {
    const spiffeId = `spiffe://cluster.local/ns/team-${i % 50}/sa/account-${i}` as SpiffeId;
    const proof = {
      provedAt: now,
      issuer: IdentityProof.issuerDigest(`${i % 3}`),
      isImpersonated: false,
    };
    const validity = { notBefore: now, notAfter: addSeconds(now, day) };
    const content = { spiffeId, publicKey: SubjectPublicKey.parse(spki), validity, proof };
    leaves.push((await Leaf.issue(issuer, content)).der);
  }
  return leaves;
}

/** A copy with a serial number of its own. No reader of a log verifies the signature. */
function withSerial(der: Bytes, idx: number): Bytes {
  const copy = der.slice();
  const { serialNumber } = Certificate.parse(der).toBeSigned;
  const at = der.findIndex((_, i) =>
    Bytes.equal(der.subarray(i, i + serialNumber.length) as Bytes, serialNumber),
  );
  new DataView(copy.buffer).setUint32(at + serialNumber.length - 4, Math.imul(idx, 0x9e3779b1));
  return copy;
}
