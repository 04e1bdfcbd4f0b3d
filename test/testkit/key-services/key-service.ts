import { createServer } from "node:http";
import { text as readText } from "node:stream/consumers";
import type { Fetch } from "../../../src/foundation/fetch.ts";
import { toX509Signature } from "../../../src/pki/signature-writer.ts";
import { listenOnLoopback } from "../network/loopback.ts";

/** What a played key service does with every request. */
export type Conduct = "works" | "is away" | "hangs" | "redirects" | "never ends" | "answers HTML";

/** A key service that a test plays: it checks all that it is asked, and keeps count. */
export interface PlayedService {
  readonly fetch: Fetch;
  conduct: Conduct;
  /** Of the service's own words, for the next requests; `undefined` for a key that is fine. */
  fault: { readonly status: number; readonly body: object } | undefined;
  /** Changes an answer that is good. */
  forge: ((body: Record<string, unknown>) => Record<string, unknown>) | undefined;
  /** The actions that it was asked for, in order. */
  readonly asked: string[];
}

/** The ports of a lease that the wall's clock ends, and that is renewed without jitter. */
export const leasePorts = { monotonic: (): number => 0, random: (): number => 0 };

/** What a service does with a request that reached it. It throws an Error for one that is not as it must be. */
export type Act = (url: URL, request: Request, body: string) => Promise<[action: string, object]>;

export function playService(act: Act): PlayedService {
  const service: PlayedService = {
    conduct: "works",
    fault: undefined,
    forge: undefined,
    asked: [],
    fetch: async (url, init) => {
      const { signal } = init;
      const { conduct } = service;
      if (conduct === "is away") throw new TypeError("fetch failed");
      if (conduct === "hangs") return hang(signal);
      if (conduct === "redirects") {
        const elsewhere = { location: "https://elsewhere.test/" };
        if (init.redirect === "manual")
          return new Response(null, { status: 307, headers: elsewhere });
        throw new Error("the redirect was followed, with its credential");
      }
      if (conduct === "never ends") return new Response(endless());
      if (conduct === "answers HTML") return new Response("<html></html>");
      const request = new Request(url, { ...init, signal: null });
      const body = await request.clone().text();
      const [action, answer] = await act(new URL(url), request, body);
      service.asked.push(action);
      const { fault, forge } = service;
      if (fault) return Response.json(fault.body, { status: fault.status });
      const good = answer as Record<string, unknown>;
      return Response.json(forge ? forge(good) : good);
    },
  };
  return service;
}

/** Has a played service answer at a real port. */
export async function startService(
  service: PlayedService,
): Promise<{ readonly host: string; readonly close: () => Promise<void> }> {
  const server = createServer(async (request, response) => {
    const { method = "", headers, url } = request;
    const answer = await service.fetch(`http://${headers.host}${url}`, {
      method,
      headers: headers as Record<string, string>,
      body: await readText(request),
    });
    response.writeHead(answer.status).end(await answer.text());
  });
  return listenOnLoopback(server);
}

const hang = (signal: AbortSignal | null | undefined): Promise<never> =>
  new Promise((_, reject) => {
    signal?.addEventListener("abort", () => reject(signal.reason));
  });

const endless = (): ReadableStream =>
  new ReadableStream({
    pull: (controller) => controller.enqueue(new Uint8Array(65_536).fill(0x20)),
  });

const text = new TextEncoder();

/** A symmetric key that wraps with additional data, as services do inside. */
export async function createWrappingKey() {
  const key = await crypto.subtle.generateKey({ name: "AES-GCM", length: 256 }, false, [
    "encrypt",
    "decrypt",
  ]);
  const algorithm = (iv: Uint8Array<ArrayBuffer>, bound: string) => ({
    name: "AES-GCM",
    iv,
    additionalData: text.encode(bound),
  });
  return {
    encrypt: async (octets: Uint8Array<ArrayBuffer>, bound: string): Promise<Buffer> => {
      const iv = crypto.getRandomValues(new Uint8Array(12));
      const sealed = await crypto.subtle.encrypt(algorithm(iv, bound), key, octets);
      return Buffer.concat([iv, new Uint8Array(sealed)]);
    },
    decrypt: async (sealed: Buffer, bound: string): Promise<Buffer | undefined> => {
      const [iv, rest] = [
        new Uint8Array(sealed.subarray(0, 12)),
        new Uint8Array(sealed.subarray(12)),
      ];
      const opened = crypto.subtle.decrypt(algorithm(iv, bound), key, rest);
      return opened.then(
        (octets) => Buffer.from(octets),
        () => undefined,
      );
    },
  };
}

const signingKinds = {
  "EC-P256": { name: "ECDSA", namedCurve: "P-256" },
  "EC-P384": { name: "ECDSA", namedCurve: "P-384" },
  "RSA-2048": {
    name: "RSASSA-PKCS1-v1_5",
    modulusLength: 2048,
    publicExponent: new Uint8Array([1, 0, 1]),
    hash: "SHA-256",
  },
} as const;

export type SigningKind = keyof typeof signingKinds;

/** A key that signs, as services keep it: they hash by themselves, and write ECDSA as DER. */
export async function createServiceSigningKey(kind: SigningKind) {
  const parameters = signingKinds[kind];
  const { privateKey, publicKey } = await crypto.subtle.generateKey(parameters, true, [
    "sign",
    "verify",
  ]);
  const hash = kind === "EC-P384" ? "SHA-384" : "SHA-256";
  const scalarOctets = { "EC-P256": 32, "EC-P384": 48, "RSA-2048": undefined }[kind];
  return {
    hash,
    spki: Buffer.from(await crypto.subtle.exportKey("spki", publicKey)),
    sign: async (octets: Uint8Array<ArrayBuffer>): Promise<Buffer> => {
      const algorithm = { name: parameters.name, hash };
      const signed = new Uint8Array(await crypto.subtle.sign(algorithm, privateKey, octets));
      return Buffer.from(scalarOctets ? toX509Signature(signed, scalarOctets) : signed);
    },
  };
}
