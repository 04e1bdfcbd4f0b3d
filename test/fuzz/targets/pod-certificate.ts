import { parsePodCertificateRequest } from "../../../src/node/signer/pod-certificate-request.ts";
import { podRequestJson } from "../../testkit/kubernetes/certificate-requests.ts";
import { requestInfo, signedRequest, workloadKeys } from "../corpus/requests.ts";
import { oneOf } from "../mutation/choice.ts";
import { mutateJson } from "../mutation/json.ts";
import { jsonIn, requireThat, type Target } from "./target.ts";

const keys = workloadKeys.map((key) => ({
  stubPKCS10Request: signedRequest(key, requestInfo(key.spki)).toString("base64"),
}));
const older = workloadKeys.map(({ spki }) => ({
  pkixPublicKey: spki.toString("base64"),
  proofOfPossession: "c2lnbmF0dXJl",
}));
const states = [{}, { conditions: [] }, { conditions: [{ type: "Issued" }] }];

/** A PodCertificateRequest as an API server, or whoever writes into it, shows it to a signer. */
export const podCertificate: Target = {
  generate: (random) => {
    const request = podRequestJson(oneOf(random, [...keys, ...older]), oneOf(random, states));
    return Buffer.from(mutateJson(random, request));
  },
  judge: async (octets) => {
    const shown = (await jsonIn(octets.toString())) as Shown | undefined;
    const read = parsePodCertificateRequest(shown);
    if (!read) return shown === undefined ? "no JSON" : "no request";
    const { metadata, spec, status } = shown ?? { metadata: {}, spec: {} };
    const [place, request] = read;
    requireThat(place === `${metadata.namespace}/${metadata.name}`, "is another request");
    const conditions = status?.conditions ?? [];
    const isDone = conditions.some(({ type }) => /^(?:Issued|Denied|Failed)$/.test(type));
    requireThat(isDone === (request === undefined), "answers twice, or never");
    if (!request) return "answered";
    const { namespace, name, uid, account, pod, node } = request;
    const names = [account.namespace, account.name, namespace, name, uid, pod.name, pod.uid, node];
    const said = [metadata.namespace, spec.serviceAccountName];
    said.push(metadata.namespace, metadata.name, metadata.uid);
    said.push(spec.podName, spec.podUID, spec.nodeName);
    requireThat(
      names.every((each, i) => each === said[i]),
      "reads another name",
    );
    const isLabel = /^[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?$/;
    requireThat(
      [account.namespace, account.name].every((each) => isLabel.test(each)),
      "a bad name",
    );
    const key = "pkcs10" in request.key ? request.key.pkcs10 : request.key.publicKey;
    const text = spec.stubPKCS10Request || spec.pkixPublicKey;
    requireThat(Buffer.from(key).toString("base64") === text, "reads another key");
    return "pkcs10" in request.key ? "a request" : "a request with a bare key";
  },
};

type SpecName =
  | "serviceAccountName"
  | "podName"
  | "podUID"
  | "nodeName"
  | "stubPKCS10Request"
  | "pkixPublicKey";

interface Shown {
  readonly metadata: { readonly [name in "namespace" | "name" | "uid"]?: unknown };
  readonly spec: { readonly [name in SpecName]?: unknown };
  readonly status?: { readonly conditions?: readonly { readonly type: string }[] | null };
}
