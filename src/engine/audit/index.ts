/** Audit log: entries in the same commit as the change, a hash chain per org, reading and verification. */
export { AuditBuffer, auditPut, notStartedLine, recordAudit, repeatedLine } from "./audit-log.ts";
export { AuditChainer, chainAudit } from "./chain-audit.ts";
export { indexEarlierAudit } from "./index-audit.ts";
export { checkAudit, readAudit, readFilteredAudit } from "./read-audit.ts";
export { decisionPut, decisionPuts, recordDecision } from "./record-decision.ts";
