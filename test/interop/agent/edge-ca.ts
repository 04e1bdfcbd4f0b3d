import { X509Certificate } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Composition } from "../../../src/config/composition.ts";
import { Configuration } from "../../../src/config/configuration.ts";
import type { Departure } from "../../../src/pki/authority/new-taint.ts";
import { webCryptoProvider } from "../../../src/pki/web-crypto.ts";
import { createKvStore, type KvNamespace } from "../../../src/worker/kv-store.ts";
import { taintSigner } from "../../testkit/agent/taint-signer.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { noFetching } from "../../testkit/network/no-fetching.ts";
import { createEdgeWorker } from "../../testkit/programs/edge-worker.ts";
import { repeatedly } from "../../testkit/time/until.ts";
import { istiodName } from "../native-grpc/mesh.ts";

/** The Worker in workerd, with leaves that live for seconds, and its cron running. */
export type EdgeCa = Awaited<ReturnType<typeof startEdgeCa>>;

const issuer = "https://cluster.test";

export async function startEdgeCa(leafSeconds: number) {
  const tokenKey = await createTokenKey("ES256", "key-1");
  const vars = {
    ISSUERS: [
      {
        issuer,
        jwks: jwksOf(tokenKey),
        trusted_node_accounts: ["mesh/node"],
        node_reach: "anywhere",
        gateways: [{ account: "mesh/istiod", dns_names: [istiodName] }],
      },
    ],
    INCEPTION_DATE: new Date().toISOString().slice(0, 10),
    PROPAGATION_INTERVAL: "0s",
    MAX_WORKLOAD_CERT_TTL: `${leafSeconds}s`,
    DEFAULT_WORKLOAD_CERT_TTL: `${leafSeconds}s`,
    AUTHORITY_LIFETIME: `${5 * leafSeconds}s`,
  };
  const secrets = { KEK: randomKek() };
  const harness = await createEdgeWorker({ vars: { ...vars, ...secrets } });
  const { url } = await harness.listen();
  const worker = harness.getWorker<{ AUTHORITIES: KvNamespace }>();
  const runCron = () => worker.scheduled({ cron: "* * * * *" });
  await runCron();
  const cron = repeatedly(runCron, 500);
  // The same CA a second time over the same KV, as in an operator's terminal, for taints.
  const operator = await Composition.compose(Configuration.parse({ ...vars, ...secrets }), {
    store: createKvStore((await worker.getEnv()).AUTHORITIES),
    fetching: noFetching,
    cryptoProvider: webCryptoProvider,
    log: createEventRecorder(),
    clock: () => new Date(),
  });
  return {
    url,
    /** A file with a token for `mesh:<name>`. */
    async tokenFile(folder: string, name: string): Promise<string> {
      const file = join(folder, `token-${name}`);
      const token = await mintAccountToken(tokenKey, issuer, `mesh:${name}`, new Date());
      await writeFile(file, `${token}\n`);
      return file;
    },
    /** The SHA-256 fingerprint of the root of the authority that signs now. */
    async signingRoot() {
      const view = await operator.certificateAuthority.issuance.authorities.at(new Date());
      const [root] = view.issuer?.authority.roots ?? [];
      return root ? new X509Certificate(root).fingerprint256 : "";
    },
    taint: (departure: Departure) => taintSigner(operator, departure, new Date()),
    async close() {
      await cron.end();
      await harness.close();
    },
  };
}
