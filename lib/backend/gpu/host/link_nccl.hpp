// Exchange of data between the devices of a mesh by NCCL (RCCL with RLXC_HIP). Every device is a process that mpirun starts; MPI
// brings them together. RLXC_TIMEOUT seconds (60) are the limit for all to be there.
#pragma once
#define OMPI_SKIP_MPICXX 1  // Open MPI without its C++ bindings
#include <mpi.h>
#include <unistd.h>
#ifdef RLXC_HIP
#include <rccl/rccl.h>
#define RLXC_VISIBLE "HIP_VISIBLE_DEVICES"
#else
#include <nccl.h>
#define RLXC_VISIBLE "CUDA_VISIBLE_DEVICES"
#endif

#include "program.hpp"

namespace rlxc {

class NcclLink : public Link {
 public:
  // Each process of a machine takes a GPU of its own, unless the environment names one.
  NcclLink(int* argc, char*** argv) {
    const char* limit = std::getenv("RLXC_TIMEOUT");
    alarm(limit && std::atoi(limit) > 0 ? static_cast<unsigned>(std::atoi(limit)) : 60);
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
    MPI_Comm near;
    int number = 0;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &near);
    MPI_Comm_rank(near, &number);
    MPI_Comm_free(&near);
    setenv(RLXC_VISIBLE, std::to_string(number).c_str(), 0);
  }
  ~NcclLink() override {
    for (ncclComm_t c : groups_) ncclCommDestroy(c);
    MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  // Ends all processes.
  [[noreturn]] static void end(int code) {
    MPI_Abort(MPI_COMM_WORLD, code);
    std::abort();
  }

  void open(const std::vector<Member>& groups) override {
    for (const Member& m : groups) {
      MPI_Comm members;
      ncclUniqueId id;
      MPI_Comm_split(MPI_COMM_WORLD, m.first_rank, m.position, &members);
      if (m.position == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
      MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, members);
      MPI_Comm_free(&members);
      groups_.emplace_back();
      check(ncclCommInitRank(&groups_.back(), m.devices, id, m.position), "ncclCommInitRank");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    alarm(0);
  }

  void all_reduce(int group, const void* in, void* out, size_t count, const std::string& dtype, const std::string& op) override {
    check(ncclAllReduce(in, out, count, type(dtype), reduction(op), groups_[group], nullptr), "ncclAllReduce");
  }
  void reduce_scatter(int group, const void* in, void* out, size_t count, const std::string& dtype, const std::string& op) override {
    check(ncclReduceScatter(in, out, count, type(dtype), reduction(op), groups_[group], nullptr), "ncclReduceScatter");
  }
  void all_gather(int group, const void* in, void* out, size_t bytes) override {
    check(ncclAllGather(in, out, bytes, ncclInt8, groups_[group], nullptr), "ncclAllGather");
  }
  void exchange(int group, const std::vector<Message>& sent, const std::vector<Message>& received) override {
    check(ncclGroupStart(), "ncclGroupStart");
    for (const Message& m : sent) check(ncclSend(m.at, m.bytes, ncclInt8, m.device, groups_[group], nullptr), "ncclSend");
    for (const Message& m : received) check(ncclRecv(m.at, m.bytes, ncclInt8, m.device, groups_[group], nullptr), "ncclRecv");
    check(ncclGroupEnd(), "ncclGroupEnd");
  }

 private:
  static void check(ncclResult_t result, const char* call) {
    if (result != ncclSuccess) fail(std::string(call) + ": " + ncclGetErrorString(result));
  }
  static ncclDataType_t type(const std::string& dtype) {
    static const std::map<std::string, ncclDataType_t> types = {{"f32", ncclFloat32}, {"f64", ncclFloat64}, {"i8", ncclInt8},   {"i32", ncclInt32},
                                                                {"i64", ncclInt64},   {"u8", ncclUint8},    {"u32", ncclUint32}, {"u64", ncclUint64}};
    const auto found = types.find(dtype);
    if (found == types.end()) fail("NCCL adds no numbers of type " + dtype);
    return found->second;
  }
  static ncclRedOp_t reduction(const std::string& op) { return op == "max" ? ncclMax : op == "min" ? ncclMin : ncclSum; }

  int rank_ = 0, ranks_ = 1;
  std::vector<ncclComm_t> groups_;
};

}  // namespace rlxc
