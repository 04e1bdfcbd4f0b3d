import { X509Certificate } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { join } from "node:path";
import { fencedBlocks } from "../../pages/page-blocks.ts";
import { claimsOf } from "../../testkit/callers/foreign-tokens.ts";
import { createTokenKey, jwksOf, mintToken } from "../../testkit/callers/tokens.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { listenOnLoopback } from "../../testkit/network/loopback.ts";
import { runWell } from "../../testkit/programs/child-process.ts";
import { launchRampart, launchServer, serveToml } from "../../testkit/programs/rampart-process.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { until } from "../../testkit/time/until.ts";
import { identityAt, tableOf } from "./tables.ts";

/**
 * Agents, and the page's commands of curl, on machines of three platforms, each of which gets its tokens from the played
 * endpoints of its own. It runs in a network namespace whose loopback has the address of the clouds' metadata services.
 * It prints its faults as JSON.
 */
const sources = { gce: "google", azure: "azure", github: "github" } as const;
type Source = keyof typeof sources;
type Platform = (typeof sources)[Source];

const pass = "pass-of-the-job";
const platforms = Object.values(sources);
const key = await createTokenKey("RS256", "k1");

/** What the platforms' own pages say of their endpoints; `undefined` refuses. */
async function answerOf({ url = "", headers }: IncomingMessage): Promise<string | undefined> {
  const { pathname, searchParams } = new URL(url, "http://machine");
  const mint = (platform: Platform, audience: string) =>
    mintToken(key, {
      ...claimsOf(platform, new Date()),
      jti: crypto.randomUUID(),
      aud: searchParams.get(audience),
    });
  if (pathname.startsWith("/computeMetadata/")) {
    if (headers["metadata-flavor"] !== "Google" || searchParams.get("format") !== "full") return;
    return mint("google", "audience");
  }
  if (pathname === "/metadata/identity/oauth2/token") {
    if (headers["metadata"] !== "true") return;
    return JSON.stringify({ access_token: await mint("azure", "resource"), expires_in: "86399" });
  }
  if (headers.authorization?.replace(/^bearer/i, "") !== ` ${pass}`) return;
  return JSON.stringify({ value: await mint("github", "audience") });
}

const environmentOf = (source: Source, local: string): Readonly<Record<string, string>> => ({
  RAMPART_TOKEN_SOURCE: source,
  RAMPART_TOKEN_AUDIENCE:
    source === "azure" ? "00000000-1111-2222-3333-444444444444" : "https://ca.test",
  // No link-local address may be asked through it.
  HTTP_PROXY: "http://127.0.0.1:9",
  NO_PROXY: "127.0.0.1",
  ACTIONS_ID_TOKEN_REQUEST_URL: `http://${local}/job?api-version=2.0`,
  ACTIONS_ID_TOKEN_REQUEST_TOKEN: pass,
});

const pageFile = join(import.meta.dirname, "../../../docs/how-to/foreign-tokens.md");
const folder = await lastingFolder();
const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
  const found = await answerOf(request);
  response.writeHead(found === undefined ? 403 : 200).end(found);
};
const listener = (request: IncomingMessage, response: ServerResponse): void =>
  void answer(request, response);
await new Promise<void>((resolve) => createServer(listener).listen(80, "169.254.169.254", resolve));
const { host: local } = await listenOnLoopback(createServer(listener));

const file = join(folder, "rampart.toml");
const ISSUERS = await Promise.all(platforms.map((each) => tableOf(each, { jwks: jwksOf(key) })));
await writeFile(file, serveToml(join(folder, "store"), { PROPAGATION_INTERVAL: "0s", ISSUERS }));
const serve = await launchServer("serve", file, { KEK: randomKek() });
const roots = join(folder, "roots.pem");
await writeFile(roots, await (await fetch(`http://${serve.monitoringAddress}/bundle.pem`)).text());

const faults: string[] = [];
let passed = 0;
const show = async (what: string, act: () => Promise<unknown>): Promise<void> => {
  await act().then(
    () => void passed++,
    (error: unknown) => faults.push(`${what}: ${String(error)}`),
  );
};

/** Starts an agent on a machine, and waits until it has its certificate. @returns Its log. */
async function certified(source: Source): Promise<readonly string[]> {
  const certs = join(folder, source);
  await mkdir(certs);
  const agent = launchRampart(["agent", "run"], {
    environment: {
      CA_ADDR: `localhost:${serve.port}`,
      CA_ROOT_CA: roots,
      POD_NAMESPACE: `at-${sources[source]}`,
      SERVICE_ACCOUNT: "deploy",
      RAMPART_SDS_SOCKET: join(certs, "sds"),
      OUTPUT_CERTS: certs,
      RAMPART_STATUS_ADDR: "127.0.0.1:0",
      ...environmentOf(source, local),
    },
  });
  const isNamed = async (): Promise<boolean> => {
    const pem = await readFile(join(certs, "cert-chain.pem"), "utf8").catch(() => "");
    const name = `URI:${identityAt(sources[source])}`;
    return pem !== "" && new X509Certificate(pem).subjectAltName === name;
  };
  await until("it gets no certificate", isNamed).catch((error: unknown) => {
    throw new Error(`${String(error)}: ${agent.lines.slice(-3).join(" ")}`);
  });
  await agent.end();
  return agent.lines;
}

for (const source of Object.keys(sources) as Source[])
  await show(`an agent by ${source}, whose log has no token or secret`, async () => {
    if (/eyJ|pass-of-the-job/.test((await certified(source)).join("\n")))
      throw new Error("it has one");
  });
/** The commands of the page that get a token by curl, as they stand there. */
const commands = fencedBlocks(await readFile(pageFile, "utf8"))
  .flatMap(({ text }) => /curl[^>]*> token/.exec(text) ?? [])
  .map((text) => text.replaceAll("api://rampart", "00000000-1111-2222-3333-444444444444"));
for (const command of commands) {
  await show(`the page's ${command.slice(0, 60)}`, async () => {
    const given = { ...environmentOf("github", local), NO_PROXY: "" };
    const environment = { ...given, HTTP_PROXY: "", PATH: process.env["PATH"] ?? "" };
    await runWell("sh", ["-c", command], { folder, environment });
    const token = await readFile(join(folder, "token"), "utf8");
    if (!/^[\w-]+\.[\w-]+\.[\w-]+\n?$/.test(token)) throw new Error("printed no token");
  });
}
await show("the page has three", async () => {
  if (commands.length !== 3) throw new Error(`it has ${commands.length}`);
});
await serve.end();
console.log(JSON.stringify({ passed, faults }));
process.exit();
