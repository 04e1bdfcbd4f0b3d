import { type DescFile, type DescService, toBinary } from "@bufbuild/protobuf";
import { nestedTypes } from "@bufbuild/protobuf/reflect";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import {
  ServerReflection,
  type ServerReflectionRequest,
} from "../../gen/grpc/reflection/v1/reflection_pb.ts";

type Question = ServerReflectionRequest["messageRequest"];

type Answer =
  | { case: "listServicesResponse"; value: { service: { name: string }[] } }
  | { case: "fileDescriptorResponse"; value: { fileDescriptorProto: Uint8Array[] } }
  | { case: "allExtensionNumbersResponse"; value: { baseTypeName: string } }
  | { case: "errorResponse"; value: { errorCode: number; errorMessage: string } };

/** The services and their files, indexed once. */
interface Catalogue {
  readonly services: readonly string[];
  readonly byName: ReadonlyMap<string, DescFile>;
  readonly bySymbol: ReadonlyMap<string, DescFile>;
}

/** Each client holds a stream for as long as it likes. */
const maximumStreams = 32;

/** Adds gRPC's server reflection for these services and itself. */
export function addReflection(router: ConnectRouter, services: readonly DescService[]): void {
  const catalogue = catalogueOf([...services, ServerReflection]);
  let streams = 0;
  router.service(ServerReflection, {
    async *serverReflectionInfo(requests) {
      if (streams >= maximumStreams) {
        throw new ConnectError("too many ask already", Code.ResourceExhausted);
      }
      streams++;
      try {
        for await (const { host, messageRequest } of requests)
          yield { validHost: host, messageResponse: answer(catalogue, messageRequest) };
      } finally {
        streams--;
      }
    },
  });
}

function answer({ services, byName, bySymbol }: Catalogue, question: Question): Answer {
  switch (question.case) {
    case "listServices":
      return {
        case: "listServicesResponse",
        value: { service: services.map((name) => ({ name })) },
      };
    case "fileByFilename":
      return filesOf(byName.get(question.value));
    case "fileContainingSymbol":
      return filesOf(bySymbol.get(question.value));
    case "allExtensionNumbersOfType":
      return bySymbol.has(question.value)
        ? { case: "allExtensionNumbersResponse", value: { baseTypeName: question.value } }
        : notFound;
    default:
      return notFound;
  }
}

const notFound: Answer = {
  case: "errorResponse",
  value: { errorCode: Code.NotFound, errorMessage: "not found" },
};

/** A file, and every file that it needs, itself first. */
function filesOf(file: DescFile | undefined): Answer {
  if (!file) return notFound;
  const fileDescriptorProto = [...withDependencies(file)].map(({ proto }) =>
    toBinary(FileDescriptorProtoSchema, proto),
  );
  return { case: "fileDescriptorResponse", value: { fileDescriptorProto } };
}

function withDependencies(file: DescFile, found = new Set<DescFile>()): Set<DescFile> {
  found.add(file);
  for (const each of file.dependencies) if (!found.has(each)) withDependencies(each, found);
  return found;
}

function catalogueOf(services: readonly DescService[]): Catalogue {
  const files = new Set(services.flatMap(({ file }) => [...withDependencies(file)]));
  const bySymbol = new Map<string, DescFile>();
  for (const file of files) for (const name of symbolsOf(file)) bySymbol.set(name, file);
  return {
    services: services.map(({ typeName }) => typeName),
    byName: new Map([...files].map((file) => [file.proto.name, file])),
    bySymbol,
  };
}

/** The full names that a file declares: types at every depth, services, methods. */
function symbolsOf(file: DescFile): string[] {
  return [...nestedTypes(file)].flatMap((type) =>
    type.kind === "service"
      ? [type.typeName, ...type.methods.map(({ name }) => `${type.typeName}.${name}`)]
      : [type.typeName],
  );
}
