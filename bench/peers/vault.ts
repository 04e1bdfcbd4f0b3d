import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import { connect } from "node:http2";
import { join } from "node:path";
import { fromGoModule } from "../../test/interop/software.ts";
import { freePorts } from "../../test/testkit/network/free-ports.ts";
import { answerOf, type Http2Call } from "../node/http2-load.ts";
import { connectTo } from "./connections.ts";
import type { MissingPeer, Peer } from "./peer.ts";
import { startPeerProcess } from "./peer-process.ts";
import { writeRoot } from "./root-files.ts";
import type { Stage } from "./stage.ts";

const name = "Vault's PKI engine";
const source = join(import.meta.dirname, "../../test/interop/own-root/vault-pki");
const token = "hvs.bench";
const key = { key_type: "ec", key_bits: 256 };

/** The PKI engine of Vault, from which OpenBao's comes, in the server of the suite `own-root`. */
export async function startVault(stage: Stage): Promise<Peer | MissingPeer> {
  const built = await fromGoModule(source, "vault-pki", { seconds: stage.buildSeconds });
  if ("missing" in built) return { name, why: built.missing };
  const folder = join(stage.folder, "vault");
  await mkdir(folder);
  // Its key serves TLS. The engine makes a root of its own.
  await writeRoot(folder, "EC-P256");
  const [port = 0] = await freePorts(1);
  const pair = ["-certificate", join(folder, "ca-cert.pem"), "-key", join(folder, "ca-key.pem")];
  const server = startPeerProcess({
    program: built.program,
    values: ["-token", token, "-port", String(port), ...pair],
    folder,
  });
  await server.until(() => found(port));
  const call = write("sign/mesh", { csr: stage.workload.csrPem, ttl: "24h" });
  return {
    name,
    version: "1.14.8, the last one from which OpenBao's comes",
    api: "`POST /v1/pki/sign/<role>` over TLS (HTTP/2)",
    rootKey: "EC-P256",
    less: "the engine alone: compares one token, checks none of a cluster; no store of tokens, no sealed storage, no log; keeps no certificate (`no_store`)",
    ...(await connectTo(server, port, () => call)),
  };
}

/** Makes the root and the role. */
async function found(port: number): Promise<void> {
  const session = connect(`https://127.0.0.1:${port}`, { rejectUnauthorized: false });
  try {
    await once(session, "connect");
    const root = { common_name: "Mesh Root", ttl: "720h", ...key };
    await answerOf(session, write("root/generate/internal", root));
    await answerOf(session, { ...write("roles/mesh", role), success: "200" });
  } finally {
    session.close();
  }
}

const role = {
  ...key,
  allowed_uri_sans: ["spiffe://cluster.local/*"],
  require_cn: false,
  max_ttl: "24h",
  no_store: true,
};

function write(path: string, body: object): Http2Call {
  const headers = {
    ":method": "POST",
    ":path": `/v1/pki/${path}`,
    "content-type": "application/json",
    "x-vault-token": token,
  };
  return { headers, body: Buffer.from(JSON.stringify(body)), success: "200" };
}
