import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import type { Environment } from "../../../src/agent/configuration/environment.ts";
import { parseConfiguration } from "../../../src/agent/configuration.ts";
import { EnvironmentProxies } from "../../../src/program/http/proxies.ts";

const pod = { POD_NAMESPACE: "foo", SERVICE_ACCOUNT: "bar" };
const sourceOf = (variables: Environment) =>
  parseConfiguration({ ...pod, ...variables }).request.token;

const audience = "https://ca.example.com";
const of = (source: string, others: Environment = {}): Environment => ({
  RAMPART_TOKEN_SOURCE: source,
  ...others,
});
const gitHub = {
  ACTIONS_ID_TOKEN_REQUEST_URL: "https://run.example.com/token?api-version=2.0",
  ACTIONS_ID_TOKEN_REQUEST_TOKEN: "pass-of-the-job",
};
const google =
  "http://169.254.169.254/computeMetadata/v1/instance/service-accounts/default/identity";

test.each<[Environment, object]>([
  [of("file", { RAMPART_TOKEN_FILE: "/token" }), { kind: "file", path: "/token" }],
  [
    of("gce", { RAMPART_TOKEN_AUDIENCE: audience }),
    {
      url: `${google}?audience=https%3A%2F%2Fca.example.com&format=full`,
      headers: { "metadata-flavor": "Google" },
      member: undefined,
    },
  ],
  [
    { CREDENTIAL_FETCHER_TYPE: "GoogleComputeEngine", TRUST_DOMAIN: "acme.svc.id.goog" },
    { url: `${google}?audience=acme.svc.id.goog&format=full` },
  ],
  [
    of("file", { CREDENTIAL_FETCHER_TYPE: "GoogleComputeEngine", RAMPART_TOKEN_FILE: "/token" }),
    { kind: "file", path: "/token" },
  ],
  [
    of("azure", { RAMPART_TOKEN_AUDIENCE: "api://rampart" }),
    {
      url: "http://169.254.169.254/metadata/identity/oauth2/token?api-version=2018-02-01&resource=api%3A%2F%2Frampart",
      headers: { metadata: "true" },
      member: "access_token",
    },
  ],
  [
    of("github", { RAMPART_TOKEN_AUDIENCE: `${audience}/?a&b`, ...gitHub }),
    {
      url: "https://run.example.com/token?api-version=2.0&audience=https%3A%2F%2Fca.example.com%2F%3Fa%26b",
      headers: { authorization: "Bearer pass-of-the-job" },
      member: "value",
    },
  ],
  [of("command:/bin/token  --for  ca"), { kind: "command", argv: ["/bin/token", "--for", "ca"] }],
])("reads the source of %o", (variables, source) => {
  expect(sourceOf(variables)).toMatchObject(source);
});

test.each([
  ["gce", "https://ca.example.com", ""],
  ["azure", "api://rampart", " | jq -j .access_token"],
])("the page has the request by curl that the agent makes for %s", (source, asked, rest) => {
  const token = sourceOf(of(source, { RAMPART_TOKEN_AUDIENCE: asked }));
  const { url, headers } = token as { url: string; headers: Readonly<Record<string, string>> };
  const page = readFileSync("docs/how-to/foreign-tokens.md", "utf8");
  expect(page).toContain(` '${decodeURIComponent(url)}'${rest} > token`);
  for (const [name, value] of Object.entries(headers))
    expect(page.toLowerCase()).toContain(` -h '${name}: ${value}' `.toLowerCase());
});

test("istiod gets a token of the same source", () => {
  const variables = of("command:/bin/token", { DISCOVERY_ADDRESS: "istiod:15012" });
  const { request, xds } = parseConfiguration({ ...pod, ...variables });
  expect(xds?.istiod.token).toEqual(request.token);
});

test.each<[Environment, string]>([
  [{}, "Kubernetes"],
  [of("file"), "Kubernetes"],
  [of("gce", { RAMPART_TOKEN_AUDIENCE: audience }), ""],
  [of("command:/bin/token"), ""],
  [of("command:/bin/token", { ISTIO_META_CLUSTER_ID: "vm" }), "vm"],
])("names the cluster to the CA, with %o", (variables, clusterId) => {
  const { request, xds } = parseConfiguration({
    ...{ ...pod, DISCOVERY_ADDRESS: "istiod:15012" },
    ...variables,
  });
  expect(request.clusterId).toBe(clusterId);
  expect(xds?.istiod.headers["clusterid"]).toBe(variables["ISTIO_META_CLUSTER_ID"] ?? "Kubernetes");
});

test("AWS's tokens are asked for by what knows the machine's credential", () => {
  const obtain = async (): Promise<string> => "token";
  const variables = of("aws", { RAMPART_TOKEN_AUDIENCE: audience });
  const tokensFor: string[] = [];
  const { request } = parseConfiguration({ ...pod, ...variables }, (given) => {
    tokensFor.push(given);
    return obtain;
  });
  expect([request.token, tokensFor]).toEqual([{ kind: "function", obtain }, [audience]]);
});

test.each(["gce", "azure"])("no proxy is asked for the token of %s", (source) => {
  const token = sourceOf(of(source, { RAMPART_TOKEN_AUDIENCE: "a" }));
  const { hostname } = new URL("url" in token ? token.url : "");
  const { proxyFor } = EnvironmentProxies.read({ HTTP_PROXY: "http://proxy:3128" });
  expect(proxyFor({ isTls: false, host: "example.com", port: 80 })).toBeDefined();
  expect(proxyFor({ isTls: false, host: hostname, port: 80 })).toBeUndefined();
});

const accepted = "must be file, gce, aws, azure, github or command:<program> <argument>…";
const noJob = "github needs ACTIONS_ID_TOKEN_REQUEST_URL (https)";

test.each<[Environment, string]>([
  [of("aws"), "RAMPART_TOKEN_AUDIENCE: is required with RAMPART_TOKEN_SOURCE=aws"],
  [of("aws", { RAMPART_TOKEN_AUDIENCE: "a" }), "RAMPART_TOKEN_SOURCE: aws needs AWS_REGION"],
  [of("AWS"), `RAMPART_TOKEN_SOURCE: ${accepted}`],
  [of("GCE", { RAMPART_TOKEN_AUDIENCE: "a" }), `RAMPART_TOKEN_SOURCE: ${accepted}`],
  [of("/var/run/token"), `RAMPART_TOKEN_SOURCE: ${accepted}`],
  [of("gce"), "RAMPART_TOKEN_AUDIENCE: is required with RAMPART_TOKEN_SOURCE=gce"],
  [of("azure"), "RAMPART_TOKEN_AUDIENCE: is required"],
  [of("github", gitHub), "RAMPART_TOKEN_AUDIENCE: is required"],
  [
    of("azure", { CREDENTIAL_FETCHER_TYPE: "GoogleComputeEngine" }),
    "RAMPART_TOKEN_AUDIENCE: is required",
  ],
  [{ RAMPART_TOKEN_AUDIENCE: "a" }, "RAMPART_TOKEN_AUDIENCE: is for"],
  [of("command:"), "command: takes a program"],
  [of("command:sh -c 'cat token'"), "without quotes"],
  [of("github", { RAMPART_TOKEN_AUDIENCE: "a" }), noJob],
  [{ CREDENTIAL_FETCHER_TYPE: "Mock" }, 'must be one of "JWT"|"GoogleComputeEngine"'],
])("refuses %o by name", (variables, fault) => {
  expect(() => sourceOf(variables)).toThrow(fault);
});

test.each<Environment>([
  { ACTIONS_ID_TOKEN_REQUEST_URL: "http://run.example.com/token" },
  { ACTIONS_ID_TOKEN_REQUEST_URL: "run.example.com" },
  { ACTIONS_ID_TOKEN_REQUEST_TOKEN: "" },
  { ACTIONS_ID_TOKEN_REQUEST_TOKEN: "pass-of-the-job\r\nx: y" },
])("refuses a job's %o without quoting its secret", (changes) => {
  const variables = of("github", { RAMPART_TOKEN_AUDIENCE: "a", ...gitHub, ...changes });
  expect(() => sourceOf(variables)).toThrow(noJob);
  expect(() => sourceOf(variables)).not.toThrow("pass-of-the-job");
});
