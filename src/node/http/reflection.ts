import { type DescFile, type DescService, toBinary } from "@bufbuild/protobuf";
import { nestedTypes } from "@bufbuild/protobuf/reflect";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { Code, type ConnectRouter, type HandlerContext } from "@connectrpc/connect";
import { untilEnding } from "../../foundation/pause.ts";
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

/** Lets a caller hold a stream. @throws ConnectError where too many do. */
export type HoldStream = <T>(
  context: HandlerContext,
  stream: AsyncIterable<T>,
) => AsyncGenerator<T, void>;

/** Adds gRPC's server reflection for these services and itself. */
export function addReflection(
  router: ConnectRouter,
  services: readonly DescService[],
  hold: HoldStream,
  ending: AbortSignal,
): void {
  const catalogue = catalogueOf([...services, ServerReflection]);
  async function* answers(requests: AsyncIterable<ServerReflectionRequest>) {
    const asked = requests[Symbol.asyncIterator]();
    for (;;) {
      const next = asked.next();
      await untilEnding(next, ending);
      if (ending.aborted) return;
      const { done, value } = await next;
      if (done) return;
      yield { validHost: value.host, messageResponse: answer(catalogue, value.messageRequest) };
    }
  }
  router.service(ServerReflection, {
    serverReflectionInfo: (requests, context) => hold(context, answers(requests)),
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
