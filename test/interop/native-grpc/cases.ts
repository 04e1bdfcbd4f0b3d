import { runWell } from "../../testkit/programs/child-process.ts";
import type { Call, CertificateFiles, KeyAndRequest } from "./clients/client.ts";
import { type ClientCertificates, holder, pilotAgentRequest } from "./credentials.ts";
import { type Mesh, nodeAccount } from "./mesh.ts";
import type { Scratch } from "./scratch.ts";

/** A call, and its expected outcome. */
export interface Case {
  readonly what: string;
  readonly call: Call;
  /** The code, or the identity of the certificate that comes back. */
  readonly expected:
    | { readonly code: string }
    | { readonly spiffeId: string; readonly keyPem: string };
  /** The abilities that the client needs. Over plain HTTP none can show a certificate. */
  readonly needs?: "name an identity" | "show an expired certificate";
}

/** The workload of the tokens. */
export const caller = { account: "foo/bar", spiffeId: "spiffe://cluster.local/ns/foo/sa/bar" };
const other = "spiffe://cluster.local/ns/foo/sa/other";
const clusterId = "Kubernetes";
const day = 86_400;

/** The successes and all refusals of one server. */
export async function casesFor(
  mesh: Mesh,
  certificates: ClientCertificates | undefined,
  scratch: Scratch,
): Promise<Case[]> {
  const token = await mesh.token(caller);
  const { csr, keyPem } = await pilotAgentRequest(caller.spiffeId);
  const usual = { csr, validitySeconds: day, token, clusterId, metadata: { CertSigner: "" } };
  return [
    { what: "a token", call: usual, expected: { ...caller, keyPem } },
    ...(await requestCases(usual, scratch)),
    ...(await tokenCases(mesh, usual)),
    ...(await impersonationCases(mesh, usual, keyPem)),
    ...forgeryCases(usual, keyPem),
    ...(certificates ? certificateCases(certificates, usual, keyPem) : []),
  ];
}

/** Cases of the request. */
async function requestCases(usual: Call, scratch: Scratch): Promise<Case[]> {
  const rsa2048 = await opensslRequest(scratch, "rsa:2048");
  const rsa1024 = await opensslRequest(scratch, "rsa:1024");
  const refused = (what: string, change: Partial<Call>, code = "InvalidArgument"): Case => ({
    what,
    call: { ...usual, ...change },
    expected: { code },
  });
  return [
    {
      what: "a token, and an RSA key",
      call: { ...usual, csr: rsa2048.csr },
      expected: { ...caller, keyPem: rsa2048.keyPem },
    },
    refused("a CSR that is none", { csr: "junk" }),
    refused("a CSR that another key has signed", { csr: withOtherSignature(usual.csr) }),
    refused("a CSR for an RSA key of 1024 bits", { csr: rsa1024.csr }),
    refused("too long a validity", { validitySeconds: 91 * day }),
    refused("a signer that there is not", { metadata: { CertSigner: "example.com/x" } }),
    refused("too large a message", { csr: "x".repeat(70_000) }, "ResourceExhausted"),
  ];
}

/** Cases of the token. */
async function tokenCases(mesh: Mesh, usual: Call): Promise<Case[]> {
  const { token: _, ...anonymous } = usual;
  const refused = (what: string, call: Call): Case => ({
    what,
    call,
    expected: { code: "Unauthenticated" },
  });
  const audience = await mesh.token({ ...caller, audience: "vault" });
  const expired = await mesh.token({ ...caller, lifetimeSeconds: -5 });
  const stranger = await mesh.token({ ...caller, issuer: "a stranger" });
  const namespace = await mesh.token({ account: "elsewhere/bar" });
  return [
    refused("no token", anonymous),
    refused("a token that is none", { ...usual, token: "junk" }),
    refused("a token for another audience", { ...usual, token: audience }),
    refused("an expired token", { ...usual, token: expired }),
    refused("a token of another issuer", { ...usual, token: stranger }),
    refused("a token of a namespace that its issuer may not vouch for", {
      ...usual,
      token: namespace,
    }),
    refused("the clusterid of another cluster", { ...usual, clusterId: "prod-2" }),
  ];
}

async function impersonationCases(mesh: Mesh, usual: Call, keyPem: string): Promise<Case[]> {
  const node = { ...usual, token: await mesh.token({ account: nodeAccount }) };
  const naming = (call: Call, identity: string): Call => ({
    ...call,
    metadata: { ImpersonatedIdentity: identity },
  });
  const needs = "name an identity";
  const code = "PermissionDenied";
  const elsewhere = "spiffe://cluster.local/ns/elsewhere/sa/bar";
  const evil = "spiffe://evil.test/ns/foo/sa/bar";
  return [
    {
      what: "a node proxy for a workload",
      call: naming(node, other),
      expected: { spiffeId: other, keyPem },
      needs,
    },
    {
      what: "a node proxy for a namespace that is not its issuer's",
      call: naming(node, elsewhere),
      expected: { code },
      needs,
    },
    {
      what: "a node proxy for another trust domain",
      call: naming(node, evil),
      expected: { code },
      needs,
    },
    { what: "somebody else for a workload", call: naming(usual, other), expected: { code }, needs },
  ];
}

/** A workload that claims to be a gateway. */
function forgeryCases(usual: Call, keyPem: string): Case[] {
  const headers = { "x-forwarded-client-cert": `URI=${other}` };
  const { token: _, ...anonymous } = usual;
  return [
    {
      what: "a forwarded certificate from a workload, which gets its own",
      call: { ...usual, headers },
      expected: { ...caller, keyPem },
    },
    {
      what: "a forwarded certificate from nobody",
      call: { ...anonymous, headers },
      expected: { code: "Unauthenticated" },
    },
  ];
}

function certificateCases(
  { valid, expired, ofAnotherCa }: ClientCertificates,
  { token, ...anonymous }: Call,
  keyPem: string,
): Case[] {
  const with_ = (certificate: CertificateFiles): Call => ({ ...anonymous, certificate });
  const code = "Unauthenticated";
  return [
    {
      what: "a client certificate",
      call: with_(valid),
      expected: { spiffeId: holder.spiffeId, keyPem },
    },
    {
      what: "a client certificate of another CA, which is none",
      call: with_(ofAnotherCa),
      expected: { code },
    },
    {
      what: "the same beside a good token",
      call: { ...with_(ofAnotherCa), ...(token !== undefined && { token }) },
      expected: { ...caller, keyPem },
    },
    {
      what: "an expired client certificate, which is none",
      call: with_(expired),
      expected: { code },
      needs: "show an expired certificate",
    },
  ];
}

async function opensslRequest(scratch: Scratch, key: string): Promise<KeyAndRequest> {
  const flags = ["req", "-new", "-newkey", key, "-nodes", "-subj", "/O=x", "-keyout", "-"];
  const both = await runWell("openssl", flags, { folder: scratch.folder });
  const at = both.indexOf("-----BEGIN CERTIFICATE REQUEST");
  return { keyPem: both.slice(0, at), csr: both.slice(at) };
}

/** The same CSR with another last octet, which is its signature's. */
function withOtherSignature(csr: string): string {
  const [, base64 = ""] = /-----\n([^-]+)\n-----/.exec(csr) ?? [];
  const der = Buffer.from(base64, "base64");
  der.writeUInt8(der.readUInt8(der.length - 1) ^ 1, der.length - 1);
  const lines = der.toString("base64").match(/.{1,64}/g) ?? [];
  return csr.replace(base64, lines.join("\n"));
}
