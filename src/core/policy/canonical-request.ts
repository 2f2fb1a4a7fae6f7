import { bareTopic, nfcEntries, nfcList } from "../model/canonical.ts";
import type { PolicyRequest } from "./decision.ts";

/**
 * The request as every part of the kernel reads it: index, `match`, `when`, explanations. The same object if it is
 * canonical already, as requests of stored jobs are.
 */
export function canonicalRequest(request: PolicyRequest): PolicyRequest {
  const topic = bareTopic(request.topic);
  // Two spellings of one label: the later one counts, as with duplicate keys. Intake refuses such labels.
  const labels = nfcEntries(request.labels) ?? mergedLabels(request.labels);
  const riskTags = nfcList(request.riskTags);
  const requires = nfcList(request.requires);
  const isSame =
    topic === request.topic &&
    labels === request.labels &&
    riskTags === request.riskTags &&
    requires === request.requires;
  return isSame ? request : { ...request, topic, labels, riskTags, requires };
}

function mergedLabels(labels: PolicyRequest["labels"]): PolicyRequest["labels"] {
  return Object.fromEntries(
    Object.entries(labels).map(([key, value]) => [key.normalize("NFC"), value.normalize("NFC")]),
  );
}
