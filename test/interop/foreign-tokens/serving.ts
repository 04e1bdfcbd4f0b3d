import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Outcome } from "../../contract/rpc-calls.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { nativeClient } from "../../testkit/network/native-grpc.ts";
import { launchServer, serveToml } from "../../testkit/programs/rampart-process.ts";

/** What a caller says beside its token. */
export interface Asked {
  readonly csr: string;
  readonly token: string;
  readonly named?: string | undefined;
}

const metadataOf = ({ named }: Asked) =>
  named === undefined ? {} : { metadata: { ImpersonatedIdentity: named } };

/** A call of native gRPC over TLS. */
async function askNatively(port: number, monitoringAddress: string) {
  const roots = await (await fetch(`http://${monitoringAddress}/bundle.pem`)).text();
  const client = nativeClient(port, "istiod.istio-system.svc", { roots });
  const ask = (asked: Asked): Promise<Outcome> =>
    client.createCertificate(
      { csr: asked.csr, ...metadataOf(asked) },
      { authorization: `Bearer ${asked.token}` },
    );
  return { ask, close: client.close };
}

/** A process of `rampart serve` that callers ask by native gRPC. */
export interface Serving {
  readonly ask: (asked: Asked) => Promise<Outcome>;
  readonly end: () => Promise<void>;
}

export async function startServing(parent: string, values: object): Promise<Serving> {
  const folder = join(parent, "serve");
  await mkdir(folder);
  const file = join(folder, "rampart.toml");
  await writeFile(
    file,
    serveToml(join(folder, "store"), { PROPAGATION_INTERVAL: "0s", ...values }),
  );
  const serve = await launchServer("serve", file, { KEK: randomKek() });
  const { ask, close } = await askNatively(serve.port, serve.monitoringAddress);
  const end = async (): Promise<void> => {
    close();
    await serve.end();
  };
  return { ask, end };
}
