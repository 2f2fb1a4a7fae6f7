import { SAFETY, SAFETY_SERVICE } from "../../src/protocol/safety-schema.ts";
import {
  CAP,
  type EnumTable,
  EXTENSIONS_FROM,
  type Field,
  PROTO_PACKAGE,
  RESERVED,
} from "../../src/protocol/schema.ts";

/** The schema as a `.proto` file. `docs/cap.proto` is its output: update it with `npx vitest run test/protocol -u`. */
export function protoText(): string {
  return [
    "// CAP, the Cordum Agent Protocol, wire version 1: bus packets and the safety kernel service.",
    "// Generated from src/protocol/schema.ts and safety-schema.ts by `npx vitest run test/protocol -u`. Append-only: field numbers never change meaning.",
    'syntax = "proto3";',
    "",
    `package ${PROTO_PACKAGE};`,
    "",
    'import "google/protobuf/timestamp.proto";',
    ...Object.entries({ ...CAP.messages, ...SAFETY.messages }).flatMap(([name, fields]) => [
      "",
      ...messageText(name, fields),
    ]),
    ...Object.entries({ ...CAP.enums, ...SAFETY.enums }).flatMap(([name, table]) => ["", ...enumText(name, table)]),
    "",
    ...serviceText(),
    "",
  ].join("\n");
}

function serviceText(): string[] {
  const methods = Object.entries(SAFETY_SERVICE.methods);
  return [
    `service ${SAFETY_SERVICE.name.slice(PROTO_PACKAGE.length + 1)} {`,
    ...methods.map(([name, [takes, gives]]) => `  rpc ${name}(${takes}) returns (${gives});`),
    "}",
  ];
}

function messageText(name: string, fields: readonly Field[]): string[] {
  const reserved = RESERVED[name];
  const oneof = fields.filter((field) => field.oneof !== undefined);
  const lines: string[] = [];
  if (reserved) lines.push(`  reserved ${reserved[0]} to ${reserved[1]};`);
  for (const field of fields) {
    if (field.oneof === undefined) lines.push(`  ${fieldText(field)}`);
    else if (field === oneof[0]) {
      lines.push(`  oneof ${field.oneof} {`, ...oneof.map((member) => `    ${fieldText(member)}`), "  }");
    }
  }
  return [`message ${name} {`, ...lines, "}"];
}

function fieldText(field: Field): string {
  const type = typeText(field);
  const shape = { single: type, repeated: `repeated ${type}`, map: `map<string, ${type}>` }[field.shape];
  return `${shape} ${field.name} = ${field.number};${commentText(field)}`;
}

function commentText({ number, type }: Field): string {
  if (number < EXTENSIONS_FROM) return "";
  return type.kind === "json" ? " // extension: UTF-8 JSON" : " // extension";
}

function typeText({ type }: Field): string {
  switch (type.kind) {
    case "scalar":
      return type.scalar;
    case "timestamp":
      return "google.protobuf.Timestamp";
    case "json":
      return "bytes";
    case "enum":
    case "message":
      return type.of;
    default:
      throw new Error(`no text for ${type satisfies never}`);
  }
}

function enumText(name: string, table: EnumTable): string[] {
  const prefix = name.replace(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase();
  const values = Object.entries(table).map(([number, value]) => `  ${prefix}_${value.toUpperCase()} = ${number};`);
  return [`enum ${name} {`, `  ${prefix}_UNSPECIFIED = 0;`, ...values, "}"];
}
