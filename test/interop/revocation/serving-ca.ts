import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "smol-toml";
import { Composition } from "../../../src/config/composition.ts";
import { Configuration } from "../../../src/config/configuration.ts";
import { FileStore } from "../../../src/node/files/file-store.ts";
import type { Departure } from "../../../src/pki/authority/new-taint.ts";
import { webCryptoProvider } from "../../../src/pki/web-crypto.ts";
import { taintSigner } from "../../testkit/agent/taint-signer.ts";
import { revokeCertificates } from "../../testkit/ca/revoke-certificates.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { noFetching } from "../../testkit/network/no-fetching.ts";
import { launchServer, runRampart } from "../../testkit/programs/rampart-process.ts";
import { type Mesh, startMesh } from "../native-grpc/mesh.ts";

/** `rampart serve` with CRLs, and an operator beside it. */
export interface ServingCa {
  readonly mesh: Mesh;
  /** The URL of its monitoring port. */
  readonly published: string;
  /** `localhost:port` of its RPCs. */
  readonly address: string;
  /** A file with its roots. */
  readonly rootFile: string;
  /** Writes its present roots into that file. */
  readonly writeRoots: () => Promise<void>;
  /** `rampart certificate revoke`, with the certificate as PEM. */
  readonly revoke: (certificate: Buffer) => Promise<void>;
  /** Revokes certificates of the signing authority by their serial numbers in hexadecimal. */
  readonly revokeSerials: (serialNumbers: readonly string[]) => Promise<void>;
  /** Taints the signing authority. A new one signs from now on. */
  readonly taint: (departure: Departure) => Promise<string>;
  /** The octets of `/crl.pem`. */
  readonly crlOctets: () => Promise<number>;
  readonly end: () => Promise<void>;
}

export const istiodName = "istiod.istio-system.svc";

/**
 * @param host The address that it listens on.
 * @param variables More of its environment.
 * @param signers The named signers of its configuration, whose callers are all of the mesh.
 */
export async function startServingCa(
  folder: string,
  host = "127.0.0.1",
  variables: Readonly<Record<string, string>> = {},
  signers: readonly Readonly<Record<string, unknown>>[] = [],
): Promise<ServingCa> {
  await mkdir(folder, { recursive: true });
  const mesh = await startMesh(join(folder, "mesh"));
  const shared = {
    ISSUERS: [mesh.issuerTable(istiodName)],
    INCEPTION_DATE: new Date().toISOString().slice(0, 10),
    PROPAGATION_INTERVAL: "0s",
    CRL: "on",
  };
  const storeDirectory = join(folder, "store");
  const places = { LISTEN: `${host}:0`, MONITORING_LISTEN: "127.0.0.1:0" };
  const file = join(folder, "rampart.toml");
  const { ISSUERS, INCEPTION_DATE: inception_date } = shared;
  const callers = ISSUERS.map(({ issuer }) => ({ issuer }));
  const SIGNERS = signers.map((signer) => ({ ...signer, inception_date, callers }));
  const own = { ...places, SIGNERS, STORE_DIRECTORY: storeDirectory };
  await writeFile(file, stringify({ ...shared, ...own }));
  const environment = { ...variables, KEK: randomKek() };
  const serve = await launchServer("serve", file, environment);
  const published = `http://${serve.monitoringAddress}`;
  const rootFile = join(folder, "roots.pem");
  const writeRoots = async (): Promise<void> =>
    writeFile(rootFile, await (await fetch(`${published}/bundle.pem`)).text());
  await writeRoots();
  const operator = await Composition.compose(
    Configuration.parse({ ...shared, KEK: environment.KEK }),
    {
      store: await FileStore.open(storeDirectory),
      fetching: noFetching,
      cryptoProvider: webCryptoProvider,
      log: createEventRecorder(),
      clock: () => new Date(),
    },
  );
  return {
    mesh,
    published,
    address: `localhost:${serve.address.split(":").at(-1)}`,
    rootFile,
    writeRoots,
    revoke: async (certificate) => {
      const loot = join(folder, "revoked.pem");
      await writeFile(loot, certificate);
      const words = ["certificate", "revoke", loot, "--config", file, "--yes"];
      await runRampart(words, { environment });
    },
    revokeSerials: (serialNumbers) => revokeCertificates(operator, serialNumbers, new Date()),
    taint: (departure) => taintSigner(operator, departure, new Date()),
    crlOctets: async () => (await (await fetch(`${published}/crl.pem`)).text()).length,
    end: async () => {
      await serve.end();
      await mesh.end();
    },
  };
}
