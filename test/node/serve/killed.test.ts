import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { issuerTables } from "../../contract/service-under-test.ts";
import { servedName } from "../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { nativeClient } from "../../testkit/network/native-grpc.ts";
import { startRawServer } from "../../testkit/network/raw-server.ts";
import {
  type ServerProcess,
  serveToml,
  startServe,
} from "../../testkit/programs/rampart-process.ts";
import { endIn } from "../../testkit/refusal.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

/** Node's own fetch rejects this answer, and five seconds later it ends the process. */
const encoded = [
  "HTTP/1.1 200 OK",
  "content-encoding: gzip, gzip, gzip, gzip, gzip, gzip",
  "transfer-encoding: chunked",
  "",
  "5",
  "abcde",
  "",
].join("\r\n");

const bundleOf = async ({ monitoringPort }: ServerProcess): Promise<string> =>
  (await fetch(`http://127.0.0.1:${monitoringPort}/bundle.pem`)).text();

test("a server outlives a hostile issuer, loses nothing that it answered when it is killed, and ends politely when asked", async () => {
  const folder = await temporaryFolder();
  const config = join(folder, "rampart.toml");
  const kek = randomKek();
  const key = await createTokenKey("ES256", "k1");
  const { issuer } = issuerTables.cluster;
  const hostile = await startRawServer((socket) => void socket.write(encoded));
  const ISSUERS = [
    { issuer, jwks: jwksOf(key) },
    { issuer: "https://hostile.test", cluster: "hostile", jwks_uri: hostile.url },
  ];
  await writeFile(
    config,
    serveToml(join(folder, "store"), { PROPAGATION_INTERVAL: "0s", ISSUERS }),
  );
  const server = await startServe(config, kek);
  const roots = await bundleOf(server);
  const { csrPem: csr } = await createWorkload();
  const ask = async (from: string) => {
    const authorization = `Bearer ${await mintAccountToken(key, from, "foo:bar", new Date())}`;
    const client = nativeClient(server.port, servedName, { roots });
    return endIn(server, (id) =>
      client.createCertificate({ csr }, { ...id, authorization }),
    ).finally(client.close);
  };
  expect(await ask("https://hostile.test")).toBe("Unavailable key-provider-unreachable");
  const [socket] = hostile.sockets;
  await new Promise<void>((resolve) => {
    if (socket?.closed) resolve();
    else socket?.once("close", resolve);
  });
  expect(await ask(issuer)).toBe("issued");
  await server.end("SIGKILL");
  const last = await startServe(config, kek);
  expect(await bundleOf(last)).toBe(roots);
  expect(await last.end()).toBe(0);
});
