import { X509Certificate } from "node:crypto";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { join } from "node:path";
import { fencedBlocks } from "../../pages/page-blocks.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { listenOnLoopback } from "../../testkit/network/loopback.ts";
import { runWell } from "../../testkit/programs/child-process.ts";
import { launchRampart, launchServer, serveToml } from "../../testkit/programs/rampart-process.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { until } from "../../testkit/time/until.ts";
import { type DomainName, type Domains, startDomains } from "./domains.ts";
import { identityAt } from "./plays.ts";

/**
 * Agents on machines of four platforms, each of which gets its tokens from the played endpoints of its own. It runs in
 * a network namespace whose loopback has the address of the clouds' metadata services. It prints its faults as JSON.
 */
const sources = { gce: "google", aws: "aws", azure: "azure", github: "github" } as const;
type Source = keyof typeof sources;

const pass = "pass-of-the-job";
const imds = "token-of-imds";
const keys = {
  AccessKeyId: "AKIDOFTHEROLE",
  SecretAccessKey: "secret/of+the+role",
  Token: "session/of+the+role==",
  Expiration: new Date(Date.now() + 3_600_000).toISOString(),
};

interface Answer {
  readonly body: string;
}

/** What the platforms' own pages say of their endpoints; `undefined` refuses. */
async function answerOf(request: IncomingMessage, domains: Domains): Promise<Answer | undefined> {
  const { method, url = "", headers } = request;
  const { pathname, searchParams } = new URL(url, "http://machine");
  const mint = (domain: DomainName, aud: string | null | undefined) =>
    domains.mint(domain, { aud });
  if (pathname.startsWith("/computeMetadata/")) {
    if (headers["metadata-flavor"] !== "Google" || searchParams.get("format") !== "full") return;
    return { body: await mint("google", searchParams.get("audience")) };
  }
  if (pathname === "/metadata/identity/oauth2/token") {
    if (headers["metadata"] !== "true") return;
    const access_token = await mint("azure", searchParams.get("resource"));
    return { body: JSON.stringify({ access_token, expires_in: "86399" }) };
  }
  if (pathname === "/job") {
    if (headers.authorization?.replace(/^bearer/i, "") !== ` ${pass}`) return;
    return { body: JSON.stringify({ value: await mint("github", searchParams.get("audience")) }) };
  }
  if (pathname === "/latest/api/token") return method === "PUT" ? { body: imds } : undefined;
  if (pathname.startsWith("/latest/meta-data/iam/")) {
    if (headers["x-aws-ec2-metadata-token"] !== imds) return;
    return { body: pathname.endsWith("/build") ? JSON.stringify(keys) : "build" };
  }
  if (pathname !== "/sts" || headers["x-amz-security-token"] !== keys.Token) return;
  if (!/Credential=AKIDOFTHEROLE\/\d{8}\/eu-west-1\/sts\//.test(headers.authorization ?? ""))
    return;
  const form = new URLSearchParams(Buffer.concat(await request.toArray()).toString());
  const token = await mint("aws", form.get("Audience.member.1"));
  return { body: `<R><WebIdentityToken>${token}</WebIdentityToken></R>` };
}

const environmentOf = (source: Source, local: string): Readonly<Record<string, string>> => ({
  RAMPART_TOKEN_SOURCE: source,
  RAMPART_TOKEN_AUDIENCE:
    source === "azure" ? "00000000-1111-2222-3333-444444444444" : "https://ca.test",
  // No link-local address may be asked through it.
  HTTP_PROXY: "http://127.0.0.1:9",
  NO_PROXY: "127.0.0.1",
  ...(source === "aws" && { AWS_REGION: "eu-west-1", AWS_ENDPOINT_URL_STS: `http://${local}/sts` }),
  ...(source === "github" && {
    ACTIONS_ID_TOKEN_REQUEST_URL: `http://${local}/job?api-version=2.0`,
    ACTIONS_ID_TOKEN_REQUEST_TOKEN: pass,
  }),
});

const pageFile = join(import.meta.dirname, "../../../docs/how-to/foreign-tokens.md");
const folder = await lastingFolder();
const domains = await startDomains({
  mint: async () => "",
  bundle: async () => "{}",
});
const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
  const found = await answerOf(request, domains);
  response.writeHead(found ? 200 : 403).end(found?.body);
};
const metadata = createServer((request, response) => void answer(request, response));
await new Promise<void>((resolve) => metadata.listen(80, "169.254.169.254", resolve));
const { host: local } = await listenOnLoopback(
  createServer((request, response) => void answer(request, response)),
);

const file = join(folder, "rampart.toml");
const tables = (await domains.tables()).filter((_, i) => i < 5);
const configure = async (values: object): Promise<void> => {
  const all = { PROPAGATION_INTERVAL: "0s", ISSUERS: tables, ...values };
  await writeFile(`${file}.new`, serveToml(join(folder, "store"), all));
  await rename(`${file}.new`, file);
};
await configure({});
const serve = await launchServer("serve", file, { KEK: randomKek() });
const roots = join(folder, "roots.pem");
await writeFile(roots, await (await fetch(`http://${serve.monitoringAddress}/bundle.pem`)).text());

const agents = await Promise.all(
  (Object.keys(sources) as Source[]).map(async (source) => {
    const certs = join(folder, source);
    await mkdir(certs);
    const environment = {
      CA_ADDR: `localhost:${serve.port}`,
      CA_ROOT_CA: roots,
      POD_NAMESPACE: `at-${sources[source]}`,
      SERVICE_ACCOUNT: "deploy",
      SECRET_TTL: "40s",
      RAMPART_SDS_SOCKET: join(certs, "sds"),
      OUTPUT_CERTS: certs,
      RAMPART_STATUS_ADDR: "127.0.0.1:0",
      ...environmentOf(source, local),
    };
    const agent = launchRampart(["agent", "run"], { environment });
    const chain = (): Promise<string> =>
      readFile(join(certs, "cert-chain.pem"), "utf8").catch(() => "");
    return { source, agent, chain };
  }),
);

const faults: string[] = [];
let passed = 0;
const show = async (what: string, act: () => Promise<void>): Promise<void> => {
  await act().then(
    () => void passed++,
    (error: unknown) => faults.push(`${what}: ${String(error)}`),
  );
};
const isNamed = (pem: string, source: Source): boolean =>
  pem !== "" && new X509Certificate(pem).subjectAltName === `URI:${identityAt(sources[source])}`;

/** Waits until an agent has another certificate than this one. */
const renews = async ({ source, chain }: (typeof agents)[number], known: string): Promise<void> =>
  until(
    `${source} gets no certificate`,
    async () => {
      const pem = await chain();
      return pem !== known && isNamed(pem, source);
    },
    60,
  );

for (const agent of agents)
  await show(`an agent by ${agent.source}`, async () => {
    await renews(agent, "").catch((error: unknown) => {
      throw new Error(`${String(error)}: ${agent.agent.lines.slice(-3).join(" ")}`);
    });
  });
await domains.rotate("github");
for (const agent of agents) {
  const known = await agent.chain();
  await show(`${agent.source}, after a key's rotation`, () => renews(agent, known));
}
const since = new Date(Date.now() - 60_000).toISOString();
await configure({ DENIED: [{ subject: "claim/repository_id=74", since }] });
const [google, github] = [agents[0], agents[3]];
if (google && github) {
  await show("a denied repository", () =>
    until(
      "it is not refused",
      () => github.agent.lines.join("\n").includes("permission_denied"),
      60,
    ),
  );
  const known = await google.chain();
  await show("beside a denied repository", () => renews(google, known));
}
await show("no log has a token or a secret", async () => {
  const said = [...agents.flatMap(({ agent }) => agent.lines), ...serve.lines].join("\n");
  if (/eyJ|secret\/of|pass-of-the-job|session\/of|token-of-imds/.test(said))
    throw new Error("one has");
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
for (const { agent } of agents) await agent.end();
await serve.end();
console.log(JSON.stringify({ passed, faults }));
process.exit();
