# A formula for a tap of your own: brew install --build-from-source ./memory-fusion.rb
#
# Dependencies come as wheels, pinned by hash, from the lock in the source archive: most have no source that Homebrew could
# build. No release is published yet. Its archive is what `hatchling build --target sdist` makes; put its address and the
# output of `shasum -a 256` here.
class MemoryFusion < Formula
  desc "Ask all your memory systems at once"
  homepage "https://pypi.org/project/memory-fusion/"
  url "https://example.org/memory_fusion-0.1.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license "Apache-2.0"

  depends_on "python@3.13"

  # The wheels have libraries of their own, whose names must stay as they are.
  preserve_rpath

  def install
    python = Formula["python@3.13"].opt_bin/"python3.13"
    system python, "-m", "venv", libexec
    pip = [libexec/"bin/python", "-m", "pip", "--disable-pip-version-check", "install"]
    system(*pip, "--require-hashes", "--only-binary", ":all:", "-r", "compose/requirements.txt")
    system(*pip, "--no-deps", ".")
    bin.install_symlink libexec/"bin/fusion"

    generate_completions_from_executable(bin/"fusion", shell_parameter_format: :typer)
    (man1/"fusion.1").write Utils.safe_popen_read(bin/"fusion", "man")
  end

  # One server for the home of the user who starts the service.
  service do
    run [opt_bin/"fusion", "serve"]
    keep_alive true
    log_path var/"log/memory-fusion.log"
    error_log_path var/"log/memory-fusion.log"
  end

  test do
    (testpath/"notes").mkpath
    (testpath/"notes/deploy.md").write "# Deploys\n\nWe deploy on Tuesdays.\n"
    system bin/"fusion", "ingest", "--direct", testpath/"notes"
    assert_match "Tuesdays", shell_output("#{bin}/fusion fuse --direct 'when do we deploy?'")
    assert_match version.to_s, shell_output("#{bin}/fusion --version")
  end
end
