import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { Composition } from "../../../src/config/composition.ts";
import { Configuration } from "../../../src/config/configuration.ts";
import { FileStore } from "../../../src/node/files/file-store.ts";
import { webCryptoProvider } from "../../../src/pki/web-crypto.ts";
import { readerToken } from "../../contract/log/log-values.ts";
import { issuerTables } from "../../contract/service-under-test.ts";
import {
  type Claims,
  createTokenKey,
  jwksOf,
  mintAccountToken,
} from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { noFetching } from "../../testkit/network/no-fetching.ts";
import type { Answer } from "../../testkit/programs/command-line.ts";
import { serveToml, startServe } from "../../testkit/programs/rampart-process.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";
import { installRampart, runLine, type Terminal } from "./incident-page.ts";

const tokenKey = await createTokenKey("ES256", "key-1");
const { issuer } = issuerTables.cluster;
const { csrPem: csr } = await createWorkload();

const values = {
  PLAINTEXT_LISTEN: "127.0.0.1:0",
  PROPAGATION_INTERVAL: "0s",
  ISSUERS: [{ issuer, jwks: jwksOf(tokenKey) }],
  LOG_ORIGIN: "log.example.com/2026",
  LOG_INTERVAL: "1s",
  CRL: "on",
};

export const tokenOf = (changes: Claims = {}): Promise<string> =>
  mintAccountToken(tokenKey, issuer, "foo:bar", new Date(), changes);

/** `rampart serve` with a log, and an operator at a terminal with docs/how-to/incident.md. */
export async function startIncident() {
  const folder = await temporaryFolder();
  await installRampart(folder);
  const config = join(folder, "rampart.toml");
  const store = join(folder, "store");
  await writeFile(config, serveToml(store, values));
  let kek = randomKek();
  const start = () => startServe(config, kek, { LOG_READERS: readerToken });
  let server = await start();
  const issued: string[] = [];
  const url = () => `http://127.0.0.1:${server.monitoringPort}`;
  const ask = async (token: string): Promise<number> => {
    const path = "istio.v1.auth.IstioCertificateService/CreateCertificate";
    const response = await fetch(`http://127.0.0.1:${server.plaintextPort}/${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
      body: JSON.stringify({ csr }),
    });
    const { certChain } = (await response.json()) as { certChain?: string[] };
    if (certChain) issued.push(certChain[0] ?? "");
    return response.status;
  };
  const terminal = (variables: Readonly<Record<string, string>> = {}): Terminal => {
    const page = { CA: url(), LOG: `${url()}/log/0`, STORE: "-c rampart.toml" };
    const secrets = { RAMPART_LOG_TOKEN: readerToken, KEK: kek };
    return { folder, environment: { ...page, ...secrets, ...variables } };
  };
  return {
    folder,
    ask,
    /** The leaves that callers got, PEM. */
    issued,
    /** Whether OpenSSL takes each of the leaves, by the served bundle and CRLs. */
    accepted: async () => {
      for (const name of ["bundle.pem", "crl.pem"]) {
        await writeFile(join(folder, name), await (await fetch(`${url()}/${name}`)).text());
      }
      const verified = issued.map(async (pem, i) => {
        await writeFile(join(folder, `leaf-${i}.pem`), pem);
        const words = "-crl_check -CAfile bundle.pem -CRLfile crl.pem";
        return (await runLine(`openssl verify ${words} leaf-${i}.pem`, terminal())).code === 0;
      });
      return Promise.all(verified);
    },
    /** Waits until the log has published this many entries of all that were issued. */
    published: (size: number) =>
      eventually(async () => {
        const headers = { authorization: `Bearer ${readerToken}` };
        const text = await (await fetch(`${url()}/log/0/checkpoint`, { headers })).text();
        expect(Number(text.split("\n")[1])).toBeGreaterThanOrEqual(size);
      }),
    bundle: async () => (await fetch(`${url()}/bundle.pem`)).text(),
    signer: async () => {
      const { authority } = (await (await fetch(`${url()}/readyz`)).json()) as {
        authority: string;
      };
      return authority;
    },
    type: (line: string, variables: Readonly<Record<string, string>> = {}): Promise<Answer> =>
      runLine(line, terminal(variables)),
    restart: async (entries: string) => {
      await server.end();
      kek = entries;
      server = await start();
    },
    /** What somebody does who has the KEK and the store. */
    asThief: async () => {
      const configuration = Configuration.parse({
        ISSUERS: values.ISSUERS,
        PROPAGATION_INTERVAL: "0s",
        KEK: kek,
      });
      return Composition.compose(configuration, {
        store: await FileStore.open(store),
        fetching: noFetching,
        cryptoProvider: webCryptoProvider,
        log: createEventRecorder(),
        clock: () => new Date(),
      });
    },
    kek: () => kek,
  };
}
