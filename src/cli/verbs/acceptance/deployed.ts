import { generateKeyPair, type KeyObject, type X509Certificate } from "node:crypto";
import { promisify } from "node:util";
import { create, toBinary } from "@bufbuild/protobuf";
import { type Fetch, FetchError, ResponseBody, toFetchError } from "../../../foundation/fetch.ts";
import {
  IstioCertificateRequestSchema,
  IstioCertificateResponseSchema,
} from "../../../gen/istio/v1/auth/ca_pb.ts";
import { createCertificateRequest } from "../../../program/certificate-request.ts";
import { parseCertificates } from "../../../program/files/pem-file.ts";
import { IssuingPath } from "../../../transport/http/paths.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { type CallAnswer, callNative, messageIn, overFetch, type Protocol } from "./calls.ts";

/** The platforms of a CA, which differ in what they can serve. */
export const platforms = ["serve", "worker", "lambda"] as const;

/** The CA that is played against, and as whom. */
export interface DeployedParts {
  /** Without a slash at its end. */
  readonly url: string;
  readonly token: string;
  readonly trustDomain: string;
  readonly platform: (typeof platforms)[number];
  /** PEM of the roots of the server's certificate; `undefined` for those of the system. */
  readonly roots: string | undefined;
  readonly fetch: Fetch;
  readonly terminal: Terminal;
}

/** A document, read whole. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly octets: Uint8Array<ArrayBuffer>;
  readonly text: string;
}

/** A certificate with its intermediates, the leaf first. */
export type Chain = readonly [X509Certificate, ...X509Certificate[]];

/** A key with its request, which asks for no name. */
export interface Subject {
  readonly privateKey: KeyObject;
  readonly csr: string;
}

/** A call for a certificate. Without a token it has no credential. */
export interface CertificateCall {
  readonly protocol: Protocol;
  readonly csr: string;
  readonly token: string | undefined;
}

const callMilliseconds = 10_000;
/** The longest document is that of the CRLs. */
const maximumDocumentOctets = 16 << 20;
const generate = promisify(generateKeyPair);

/** Makes a P-256 key and its request. */
export async function newSubject(): Promise<Subject> {
  const keys = await generate("ec", { namedCurve: "P-256" });
  return { privateKey: keys.privateKey, csr: await createCertificateRequest(keys, undefined) };
}

/** A deployed CA, to which every call is bounded in time and length. It remembers what it got, for later rows. */
export class Deployed {
  readonly parts: DeployedParts;
  /** The chains of all certificates so far. The first one shows the identity. */
  readonly issued: Chain[] = [];
  /** How long each call for a certificate took that got one, in milliseconds. */
  readonly latencies = new Map<string, number[]>();
  /** The answers of the storm, if there was one. */
  readonly stormed: CallAnswer[] = [];

  constructor(parts: DeployedParts) {
    this.parts = parts;
  }

  /** The first name of the first certificate; `undefined` before there is one. */
  get identity(): string | undefined {
    return this.issued[0] && nameOf(this.issued[0]);
  }

  readonly clock = (): Date => this.parts.terminal.clock();

  /** Reads a path of the CA, or a URL elsewhere. It follows no redirect. @throws FetchError */
  readonly ask = async (
    target: string,
    headers: Readonly<Record<string, string>> = {},
    milliseconds: number = callMilliseconds,
  ): Promise<Answer> => {
    const response = await this.#send(target, { headers }, milliseconds);
    const { status, headers: fields } = response;
    const octets = await ResponseBody.readOctets(response, maximumDocumentOctets);
    return { status, headers: fields, octets, text: new TextDecoder().decode(octets) };
  };

  async #send(target: string, init: RequestInit, milliseconds: number): Promise<Response> {
    const { url, fetch } = this.parts;
    const signal = AbortSignal.timeout(milliseconds);
    const where = target.startsWith("/") ? `${url}${target}` : target;
    return fetch(where, { ...init, redirect: "manual", signal }).catch((error: unknown) => {
      throw toFetchError(error, "did not answer");
    });
  }

  /** Calls an RPC over a protocol, once. @throws FetchError where nobody answers. */
  async call(
    protocol: Protocol,
    path: string,
    message: Uint8Array,
    token: string | undefined,
  ): Promise<CallAnswer> {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    if (protocol === "grpc") {
      const { url, roots } = this.parts;
      const tls = roots === undefined ? {} : { ca: roots };
      const signal = AbortSignal.timeout(callMilliseconds);
      return callNative(url, { path, headers, message }, tls, signal);
    }
    const { contentType, write, read } = overFetch[protocol];
    const init = {
      method: "POST",
      headers: { ...headers, "content-type": contentType },
      body: write(message) as BodyInit,
    };
    const response = await this.#send(path, init, callMilliseconds);
    const { status, headers: fields } = response;
    return read({ status, headers: fields, octets: await ResponseBody.readOctets(response) });
  }

  /** Asks for a certificate, once. */
  readonly request = async ({ protocol, csr, token }: CertificateCall): Promise<CallAnswer> => {
    const message = create(IstioCertificateRequestSchema, { csr });
    const octets = toBinary(IstioCertificateRequestSchema, message);
    const begun = performance.now();
    const answer = await this.call(protocol, IssuingPath.createCertificate, octets, token);
    const known = this.latencies.get(protocol) ?? [];
    if (answer.code === "ok") known.push(performance.now() - begun);
    this.latencies.set(protocol, known);
    return answer;
  };

  /**
   * Gets a certificate for a new key, and remembers it.
   * @throws FetchError for a refusal, and for a certificate of another key or another identity than the first one's.
   */
  async issue(protocol: Protocol): Promise<X509Certificate> {
    const { privateKey, csr } = await newSubject();
    const answer = await this.request({ protocol, csr, token: this.parts.token });
    const chain = chainIn(answer);
    const [leaf] = chain;
    if (!leaf.checkPrivateKey(privateKey)) throw new FetchError("answered for another key");
    this.issued.push(chain);
    if (nameOf(chain) === this.identity) return leaf;
    throw new FetchError(`answered for ${nameOf(chain)}, and for ${this.identity} before`);
  }
}

/** The first name of a leaf, which is a SPIFFE ID. */
const nameOf = ([{ subjectAltName = "" }]: Chain): string =>
  subjectAltName.replace(/^URI:([^,]*).*$/s, "$1");

/** The chain of an answer, which ends with all roots as one. @throws FetchError for an answer without one. */
function chainIn(answer: CallAnswer): Chain {
  const { certChain } = messageIn(IstioCertificateResponseSchema, answer);
  const [leaf, ...others] = certChain.slice(0, -1).flatMap(parseCertificates);
  if (leaf) return [leaf, ...others];
  throw new FetchError("answered without a certificate");
}
