import { create, type DescMessage, fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  type CallOptions,
  type ChannelCredentials,
  Client,
  credentials,
  Metadata,
  status,
} from "@grpc/grpc-js";
import {
  IstioCertificateRequestSchema,
  IstioCertificateResponseSchema,
} from "../../../src/gen/istio/v1/auth/ca_pb.ts";
import type { CertificateCall, Outcome } from "../../contract/rpc-calls.ts";
import { rpcPath } from "../../contract/service-under-test.ts";

/** The certificate and the roots of a caller, PEM. */
export interface CallerTls {
  readonly roots: string;
  readonly chainPem?: string;
  readonly keyPem?: string;
}

/**
 * A client of grpc-js, which shares no code with the server. It sends a call again that the server refused unseen, as
 * clients of gRPC do: a server whose roots change refuses the streams of connections with a client certificate.
 */
export interface NativeClient {
  readonly createCertificate: (
    call: CertificateCall,
    headers?: Readonly<Record<string, string>>,
    options?: CallOptions,
  ) => Promise<Outcome>;
  /** Makes any unary call with an encoded message. */
  readonly unary: (
    path: string,
    message: Uint8Array,
    headers?: Readonly<Record<string, string>>,
  ) => Promise<Uint8Array | Failure>;
  readonly close: () => void;
}

interface Failure {
  readonly code: string;
  readonly message: string;
}

/** @param tls Absent for plaintext. */
export function nativeClient(port: number, serverName: string, tls?: CallerTls): NativeClient {
  const client = new Client(`127.0.0.1:${port}`, credentialsOf(tls), {
    "grpc.ssl_target_name_override": serverName,
    "grpc.default_authority": serverName,
  });
  const send = (
    path: string,
    message: Uint8Array,
    headers: Readonly<Record<string, string>> = {},
    options: CallOptions = {},
  ) => {
    const metadata = new Metadata();
    for (const [name, value] of Object.entries(headers)) metadata.add(name, value);
    return new Promise<Uint8Array | Failure>((resolve) => {
      client.makeUnaryRequest(path, asIs, asIs, Buffer.from(message), metadata, options, (e, v) =>
        resolve(e ? { code: pascalCase(status[e.code]), message: e.details } : (v ?? Buffer.of())),
      );
    });
  };
  return {
    unary: send,
    createCertificate: async (call, headers, options) => {
      const message = encode(IstioCertificateRequestSchema, call);
      const answer = await send(rpcPath, message, headers, options);
      if (!(answer instanceof Uint8Array)) return answer;
      return { certChain: fromBinary(IstioCertificateResponseSchema, answer).certChain };
    },
    close: () => client.close(),
  };
}

const asIs = (message: Buffer): Buffer => message;

const encode = (schema: typeof IstioCertificateRequestSchema, call: CertificateCall) =>
  toBinary<DescMessage>(schema, create(schema, call));

function credentialsOf(tls: CallerTls | undefined): ChannelCredentials {
  if (!tls) return credentials.createInsecure();
  const { roots, keyPem, chainPem } = tls;
  return credentials.createSsl(Buffer.from(roots), pem(keyPem), pem(chainPem));
}

const pem = (text: string | undefined): Buffer | null => (text ? Buffer.from(text) : null);

function pascalCase(code: string | undefined): string {
  return (code ?? "").toLowerCase().replace(/(?:^|_)([a-z])/g, (_, letter) => letter.toUpperCase());
}
