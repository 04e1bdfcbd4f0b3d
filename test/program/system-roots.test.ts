import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { SystemRoots } from "../../src/program/system-roots.ts";
import { startTlsServer } from "../testkit/network/loopback-tls.ts";
import { createTlsIdentity } from "../testkit/network/tls-identity.ts";
import { runWell } from "../testkit/programs/child-process.ts";
import { runRampart } from "../testkit/programs/rampart-process.ts";
import { temporaryFolder } from "../testkit/temporary-folder.ts";

test("the roots of a machine are those of its file and of its folders, each once", async () => {
  const folder = await temporaryFolder();
  const [one, two, three] = await Promise.all([1, 2, 3].map(() => createTlsIdentity(true)));
  await mkdir(join(folder, "a"));
  await mkdir(join(folder, "b"));
  const write = (name: string, text = "") => writeFile(join(folder, name), text);
  await write("bundle.pem", `# a comment\n${one?.ca}${two?.ca}`);
  await write("a/one.pem", one?.ca);
  await write("b/three.crt", three?.ca);
  await write("b/README", "no certificate");
  const roots = SystemRoots.read({
    SSL_CERT_FILE: join(folder, "bundle.pem"),
    SSL_CERT_DIR: `${folder}/a:${folder}/nowhere:${folder}/b`,
  });
  expect(roots.map(String).sort()).toEqual([one?.ca, two?.ca, three?.ca].sort());
  expect(SystemRoots.read({ SSL_CERT_FILE: "/nowhere", SSL_CERT_DIR: "/nowhere" })).toEqual([]);
});

test("a connection without roots of its own trusts those of the machine beside Node's", async () => {
  const file = join(await temporaryFolder(), "root.pem");
  await writeFile(file, (await createTlsIdentity(true)).ca);
  const channel = join(import.meta.dirname, "../../src/agent/identity/ca-channel.ts");
  const script = `
    import tls from "node:tls";
    import { readConnectionTls } from ${JSON.stringify(channel)};
    const count = () => tls.getCACertificates("default").length;
    const before = count();
    await readConnectionTls({}, new Date(), {});
    console.log(count() - before, before > 1);`;
  const environment = { SSL_CERT_FILE: file, SSL_CERT_DIR: "/nowhere" };
  const words = ["--no-warnings", "--input-type=module", "--eval", script];
  expect(await runWell(process.execPath, words, { environment })).toBe("1 true\n");
});

test("a verb trusts a private root in the system's store, and no other", async () => {
  const { origin, ca } = await startTlsServer((_request, response) =>
    response.writeHead(404).end(),
  );
  const file = join(await temporaryFolder(), "root.pem");
  await writeFile(file, ca);
  const words = ["log", "search", "--url", `${origin}/log/0`];
  const fault = (environment: NodeJS.ProcessEnv) =>
    runRampart(words, { environment }).catch((error: unknown) => String(error));
  expect(await fault({ SSL_CERT_FILE: file })).not.toContain("certificate that is not accepted");
  expect(await fault({})).toContain("certificate that is not accepted");
});
