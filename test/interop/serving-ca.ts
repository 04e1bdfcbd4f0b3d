import { mkdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Composition } from "../../src/config/composition.ts";
import { Configuration } from "../../src/config/configuration.ts";
import { FileStore } from "../../src/node/files/file-store.ts";
import type { Departure } from "../../src/pki/authority/new-taint.ts";
import { webCryptoProvider } from "../../src/pki/web-crypto.ts";
import { taintSigner } from "../testkit/agent/taint-signer.ts";
import { revokeCertificates } from "../testkit/ca/revoke-certificates.ts";
import { randomKek } from "../testkit/configuration.ts";
import { createEventRecorder } from "../testkit/log/event-recorder.ts";
import { noFetching } from "../testkit/network/no-fetching.ts";
import { launchServer, runRampart, serveToml } from "../testkit/programs/rampart-process.ts";
import { repeatedly } from "../testkit/time/until.ts";
import { startMesh } from "./native-grpc/mesh.ts";

/** `rampart serve` with CRLs, and an operator beside it. */
export type ServingCa = Awaited<ReturnType<typeof startServingCa>>;

/** What differs from a CA of its own root, on this machine alone. */
interface ServingOptions {
  readonly host?: string;
  readonly variables?: Readonly<Record<string, string>>;
  readonly values?: Readonly<Record<string, unknown>>;
  /** Its named signers, whose callers are all of the mesh. */
  readonly signers?: readonly Readonly<Record<string, unknown>>[];
}

export async function startServingCa(
  folder: string,
  { host = "127.0.0.1", variables = {}, values = {}, signers = [] }: ServingOptions = {},
) {
  await mkdir(folder, { recursive: true });
  const mesh = await startMesh(join(folder, "mesh"));
  const storeDirectory = join(folder, "store");
  const inception_date = new Date().toISOString().slice(0, 10);
  const shared = {
    ISSUERS: [mesh.issuerTable],
    INCEPTION_DATE: inception_date,
    PROPAGATION_INTERVAL: "0s",
    CRL: "on",
    ...values,
  };
  const callers = [{ issuer: mesh.issuerTable.issuer }];
  const SIGNERS = signers.map((signer) => ({ ...signer, inception_date, callers }));
  const file = join(folder, "rampart.toml");
  const own = { LISTEN: `${host}:0`, SIGNERS };
  await writeFile(file, serveToml(storeDirectory, { ...own, ...shared }));
  const environment = { ...variables, KEK: randomKek() };
  const serve = await launchServer("serve", file, environment);
  const published = `http://${serve.monitoringAddress}`;
  const bundle = async (form: "pem" | "json" = "pem"): Promise<string> =>
    (await fetch(`${published}/bundle.${form}`)).text();
  const rootFile = join(folder, "roots.pem");
  const writeRoots = async (): Promise<void> => {
    await writeFile(`${rootFile}.new`, await bundle());
    await rename(`${rootFile}.new`, rootFile);
  };
  await writeRoots();
  const distributing = repeatedly(writeRoots, 1_000);
  const type = (...words: readonly string[]): Promise<string> =>
    runRampart([...words, "--config", file], { environment });
  const operator = async (): Promise<Composition> =>
    Composition.compose(Configuration.parse({ ...shared, KEK: environment.KEK }), {
      store: await FileStore.open(storeDirectory),
      fetching: noFetching,
      cryptoProvider: webCryptoProvider,
      log: createEventRecorder(),
      clock: () => new Date(),
    });
  return {
    mesh,
    /** The URL of its monitoring port. */
    published,
    address: `localhost:${serve.port}`,
    port: serve.port,
    lines: serve.lines,
    /** A file with its roots, as `rampart distribute` keeps it in a cluster. */
    rootFile,
    bundle,
    /** Writes a file with a token of an account, `namespace/name`. */
    tokenFile: async (account: string): Promise<string> => {
      const path = join(folder, `token-${account.replace("/", "-")}`);
      await writeFile(path, `${await mesh.token({ account })}\n`);
      return path;
    },
    /** What an operator types: `rampart …`. */
    type,
    /** `rampart certificate revoke`, with the certificate as PEM. */
    revoke: async (certificate: Buffer): Promise<void> => {
      const loot = join(folder, "revoked.pem");
      await writeFile(loot, certificate);
      await type("certificate", "revoke", loot, "--yes");
    },
    /** Revokes certificates of the signing authority by their serial numbers in hexadecimal. */
    revokeSerials: async (serialNumbers: readonly string[]) =>
      revokeCertificates(await operator(), serialNumbers, new Date()),
    /** Taints the signing authority. A new one signs from now on. */
    taint: async (departure: Departure) => taintSigner(await operator(), departure, new Date()),
    crlOctets: async () => (await (await fetch(`${published}/crl.pem`)).text()).length,
    /** @returns The exit code. */
    end: async () => {
      await distributing.end();
      const code = await serve.end();
      await mesh.end();
      return code;
    },
  };
}
