export function Logo() {
  return (
    <span class="logo">
      <svg viewBox="0 0 32 32" aria-hidden="true" focusable="false">
        <rect width="32" height="32" rx="8" class="logo-box" />
        <path d="M22 11.5A8 8 0 1 0 22 20.5" class="logo-arc" />
        <circle cx="22.4" cy="16" r="2.4" class="logo-dot" />
      </svg>
      Cordum
    </span>
  );
}
