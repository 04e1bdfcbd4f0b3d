import type { Call, CertificateFiles } from "./clients/client.ts";
import { type ClientCertificates, holder, pilotAgentRequest } from "./credentials.ts";
import { type Mesh, nodeAccount } from "./mesh.ts";

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

/** The successes and a refusal of each kind. */
export async function casesFor(
  mesh: Mesh,
  certificates: ClientCertificates | undefined,
): Promise<Case[]> {
  const token = await mesh.token(caller);
  const { csr, keyPem } = await pilotAgentRequest(caller.spiffeId);
  const usual = { csr, validitySeconds: day, token, clusterId, metadata: { CertSigner: "" } };
  return [
    { what: "a token", call: usual, expected: { ...caller, keyPem } },
    ...(await refusals(mesh, usual)),
    ...(await impersonationCases(mesh, usual, keyPem)),
    ...(certificates ? certificateCases(certificates, usual, keyPem) : []),
  ];
}

/** One refusal of each code, for the contract of the service has all. */
async function refusals(mesh: Mesh, usual: Call): Promise<Case[]> {
  const { token: _, ...anonymous } = usual;
  const token = await mesh.token({ ...caller, issuer: "a stranger" });
  const rows: readonly (readonly [what: string, call: Call, code: string])[] = [
    ["a CSR that is none", { ...usual, csr: "junk" }, "InvalidArgument"],
    ["too large a message", { ...usual, csr: "x".repeat(70_000) }, "ResourceExhausted"],
    ["no token", anonymous, "Unauthenticated"],
    ["a token of another issuer", { ...usual, token }, "Unauthenticated"],
  ];
  return rows.map(([what, call, code]) => ({ what, call, expected: { code } }));
}

async function impersonationCases(mesh: Mesh, usual: Call, keyPem: string): Promise<Case[]> {
  const node = { ...usual, token: await mesh.token({ account: nodeAccount }) };
  const naming = (call: Call, identity: string): Call => ({
    ...call,
    metadata: { ImpersonatedIdentity: identity },
  });
  const needs = "name an identity";
  const code = "PermissionDenied";
  return [
    {
      what: "a node proxy for a workload",
      call: naming(node, other),
      expected: { spiffeId: other, keyPem },
      needs,
    },
    { what: "somebody else for a workload", call: naming(usual, other), expected: { code }, needs },
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
