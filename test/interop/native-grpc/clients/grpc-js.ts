import { readFileSync } from "node:fs";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Client, credentials, Metadata, status } from "@grpc/grpc-js";
import {
  IstioCertificateRequestSchema,
  IstioCertificateResponseSchema,
} from "../../../../src/gen/istio/v1/auth/ca_pb.ts";
import {
  type Answer,
  type Call,
  type CertificateClient,
  codeName,
  headersOf,
  type Server,
} from "./client.ts";

const path = "/istio.v1.auth.IstioCertificateService/CreateCertificate";

export const grpcJsClient: CertificateClient = {
  cannot: [],
  createCertificate: async (server, call) => {
    const connection = connect(server, call);
    try {
      return await callOn(connection, call);
    } finally {
      connection.close();
    }
  },
};

/** A channel, which connects at its first call and stays connected. */
export function connect(
  { address, tls }: Server,
  { certificate }: Pick<Call, "certificate">,
): Client {
  if (!tls) return new Client(address, credentials.createInsecure());
  const read = (file: string | undefined) => (file === undefined ? null : readFileSync(file));
  const { certificateFile, keyFile } = certificate ?? {};
  const shown = credentials.createSsl(read(tls.rootsFile), read(keyFile), read(certificateFile));
  return new Client(address, shown, {
    "grpc.ssl_target_name_override": tls.serverName,
    "grpc.default_authority": tls.serverName,
    "grpc.enable_retries": 0,
  });
}

export function callOn(connection: Client, call: Call): Promise<Answer> {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(headersOf(call))) metadata.set(name, value);
  const options = { deadline: Date.now() + 20_000 };
  return new Promise((resolve) => {
    connection.makeUnaryRequest(path, encode, decode, call, metadata, options, (error, chain) => {
      if (error) resolve({ code: codeName(status[error.code] ?? ""), message: error.details });
      else resolve({ code: "OK", certChain: chain ?? [] });
    });
  });
}

/** The encoded request. */
function encode({ csr, validitySeconds, metadata }: Call): Buffer {
  const message = create(IstioCertificateRequestSchema, {
    csr,
    validityDuration: BigInt(validitySeconds),
    ...(metadata && { metadata }),
  });
  return Buffer.from(toBinary(IstioCertificateRequestSchema, message));
}

/** The chain of a response. */
function decode(octets: Uint8Array): string[] {
  return fromBinary(IstioCertificateResponseSchema, octets).certChain;
}
