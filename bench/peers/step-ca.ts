import { randomUUID } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { fromGoProxy } from "../../test/interop/software.ts";
import { freePorts } from "../../test/testkit/network/free-ports.ts";
import type { Http2Call } from "../node/http2-load.ts";
import { connectTo } from "./connections.ts";
import type { MissingPeer, Peer } from "./peer.ts";
import { startPeerProcess } from "./peer-process.ts";
import { writeRoot } from "./root-files.ts";
import type { Stage } from "./stage.ts";

const name = "step-ca";
const version = "v0.30.2";
const path = `github.com/smallstep/certificates/cmd/step-ca@${version}`;
/** The provisioner, and the id of its key. */
const provisioner = "bench";
const spiffeId = "spiffe://cluster.local/ns/foo/sa/httpbin";

/** step-ca with a JWK provisioner, whose one-time tokens stand for those of a cluster. */
export async function startStepCa(stage: Stage): Promise<Peer | MissingPeer> {
  // As its own Makefile builds it: with cgo it would need the library of smart cards.
  const built = await fromGoProxy(path, {
    settings: { CGO_ENABLED: "0" },
    seconds: stage.buildSeconds,
  });
  if ("missing" in built) return { name, why: built.missing };
  const folder = join(stage.folder, name);
  await writeRoot(folder, "EC-P256");
  const [port = 0] = await freePorts(1);
  const { publicKey, privateKey } = await generateKeyPair("ES256");
  const key = { ...(await exportJWK(publicKey)), kid: provisioner, alg: "ES256", use: "sig" };
  await mkdir(join(folder, "step"));
  const configuration = join(folder, "ca.json");
  await writeFile(configuration, JSON.stringify(configurationOf(folder, port, key)));
  const server = startPeerProcess({
    program: built.program,
    values: [configuration],
    folder,
    env: { STEPPATH: join(folder, "step") },
  });
  const next = async () => signCall(await mintToken(privateKey), stage.workload.csrPem);
  return {
    name,
    version,
    api: "`POST /1.0/sign` over TLS (HTTP/2)",
    rootKey: "EC-P256",
    less: "checks a one-time token of its own provisioner (ES256) instead of a cluster's; keeps used tokens in memory, certificates nowhere",
    ...(await connectTo(server, port, next)),
  };
}

function configurationOf(folder: string, port: number, key: object): object {
  return {
    root: join(folder, "root-cert.pem"),
    crt: join(folder, "ca-cert.pem"),
    key: join(folder, "ca-key.pem"),
    address: `127.0.0.1:${port}`,
    dnsNames: ["localhost"],
    logger: { format: "text" },
    authority: { provisioners: [{ type: "JWK", name: provisioner, key }] },
  };
}

function mintToken(key: CryptoKey): Promise<string> {
  return new SignJWT({ sans: [spiffeId] })
    .setProtectedHeader({ alg: "ES256", kid: provisioner })
    .setIssuer(provisioner)
    .setAudience("https://localhost/1.0/sign")
    .setSubject(spiffeId)
    .setJti(randomUUID())
    .setIssuedAt()
    .setNotBefore("0s")
    .setExpirationTime("5m")
    .sign(key);
}

function signCall(ott: string, csr: string): Http2Call {
  const headers = {
    ":method": "POST",
    ":path": "/1.0/sign",
    "content-type": "application/json",
  };
  return { headers, body: Buffer.from(JSON.stringify({ csr, ott })), success: "201" };
}
