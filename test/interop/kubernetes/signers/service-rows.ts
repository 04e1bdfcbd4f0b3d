import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { emptyCsr } from "../../../testkit/kubernetes/certificate-requests.ts";
import { runWell } from "../../../testkit/programs/child-process.ts";
import { until } from "../../../testkit/time/until.ts";
import { createAccount, rule } from "../cluster/accounts.ts";
import type { Call, ControlPlane } from "../cluster/control-plane.ts";
import { applyManifest } from "../cluster/manifests.ts";
import type { Scene } from "../cluster/scene.ts";
import type { Row } from "../rows.ts";
import { base64Of, setSignerScene, signerName } from "./signer-scene.ts";

const collection = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

const ofServices = [
  {
    name: signerName,
    services: [
      { account: "istio-system/service-requester", dns_names: ["web.shop.svc", "*.web.shop.svc"] },
    ],
  },
];

const servingUsages = ["digital signature", "key encipherment", "server auth"];

async function request(
  call: Call,
  dnsNames: readonly string[],
  spec: object = {},
): Promise<string> {
  const names = dnsNames.map((value) => ({ type: "dns" as const, value }));
  const { pem } = await emptyCsr("P-256", names);
  const created = await call("POST", collection, {
    apiVersion: "certificates.k8s.io/v1",
    kind: "CertificateSigningRequest",
    metadata: { generateName: "system:Service_" },
    spec: {
      signerName,
      request: base64Of(new TextEncoder().encode(pem)),
      usages: servingUsages,
      expirationSeconds: 7200,
      ...spec,
    },
  });
  const { metadata } = created;
  return (metadata as { name: string }).name;
}

interface Status {
  readonly certificate?: string;
  readonly conditions?: readonly { readonly type: string; readonly reason: string }[];
}

async function statusOf({ call }: ControlPlane, name: string): Promise<Status> {
  const { status = {} } = await call("GET", `${collection}/${name}`);
  return status as Status;
}

/** Waits until a request has its certificate, or a condition that ends it. */
async function outcomeOf(plane: ControlPlane, name: string): Promise<Status> {
  let status: Status = {};
  await until(`${name} has no answer`, async () => {
    status = await statusOf(plane, name);
    const isRefused = status.conditions?.some(({ type }) => type !== "Approved") ?? false;
    return isRefused || status.certificate !== undefined;
  });
  return status;
}

const conditionsOf = ({ conditions = [] }: Status): string[] =>
  conditions.map(({ type, reason }) => `${type} ${reason}`);

async function requireServing(
  folder: string,
  { certificate = "" }: Status,
  bundlePem: string,
): Promise<void> {
  const pem = Buffer.from(certificate, "base64").toString("utf8");
  const leaf = new X509Certificate(pem);
  assert.equal(leaf.subjectAltName, "DNS:web.shop.svc, DNS:a.web.shop.svc");
  const seconds = (leaf.validToDate.getTime() - leaf.validFromDate.getTime()) / 1000;
  assert.equal(seconds, 7200 + 120);
  const file = (name: string): string => join(folder, name);
  await writeFile(file("serving.pem"), pem);
  await writeFile(file("roots.pem"), bundlePem);
  const words = ["-x509_strict", "-purpose", "sslserver", "-verify_hostname", "web.shop.svc"];
  const files = ["-CAfile", file("roots.pem"), file("serving.pem")];
  assert.match(await runWell("openssl", ["verify", ...words, ...files]), /: OK/);
}

async function servesByPolicy({ plane, folder }: Scene): Promise<void> {
  const rules = [rule("certificates.k8s.io", ["certificatesigningrequests"], ["create"])];
  const call = plane.callAs(await createAccount(plane, "service-requester", rules));
  const approvedByHand = await request(plane.call, ["web.shop.svc"]);
  const found = await plane.call("GET", `${collection}/${approvedByHand}`);
  const approval = { type: "Approved", status: "True", reason: "ByHand", message: "" };
  await plane.call("PUT", `${collection}/${approvedByHand}/approval`, {
    ...found,
    status: { conditions: [approval] },
  });
  const scene = await setSignerScene(plane, folder);
  await applyManifest(plane, "components/signer-services/signer-services.yaml");
  try {
    await scene.start(ofServices);
    const good = await outcomeOf(plane, await request(call, ["web.shop.svc", "a.web.shop.svc"]));
    assert.deepEqual(conditionsOf(good), ["Approved AdmittedByPolicy"]);
    await requireServing(folder, good, await scene.ca.bundle());
    const refused = async (names: readonly string[], spec?: object) => {
      const status = await outcomeOf(plane, await request(call, names, spec));
      assert.equal(status.certificate, undefined);
      return conditionsOf(status);
    };
    assert.deepEqual(await refused(["db.shop.svc"]), ["Denied NameNotAllowed"]);
    assert.deepEqual(await refused([]), ["Denied UnsupportedNames"]);
    const usages = [...servingUsages, "client auth"];
    assert.deepEqual(await refused(["web.shop.svc"], { usages }), ["Denied UnsupportedUsages"]);
    const byStranger = await outcomeOf(plane, await request(plane.call, ["web.shop.svc"]));
    assert.deepEqual(conditionsOf(byStranger), ["Denied RequesterNotServed"]);
    const failed = await outcomeOf(plane, approvedByHand);
    assert.deepEqual(conditionsOf(failed), ["Approved ByHand", "Failed RequesterNotServed"]);
    assert.equal(failed.certificate, undefined);
  } finally {
    await scene.end();
  }
}

/** The rows on CertificateSigningRequests, with the rights of deploy/kustomize/components/signer-services, too. */
export const serviceRows: readonly Row<Scene>[] = [
  ["serving certificates of services: by policy alone, whoever approves", servesByPolicy],
];
